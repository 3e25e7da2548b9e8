/* SPDX-License-Identifier: MIT */
/*
 * The readable text of HTML, well-formed or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "service/html_text.h"

static const struct {
    const char *html;
    const char *text;
} cases[] = {
    {"<p>Hello <b>there</b></p><p>again</p>", "Hello there\nagain\n"},
    {"a  \n b", "a b"},
    {"one<br>two<BR/>three", "one\ntwo\nthree"},
    {"<style>p{}</style>x<script>alert('</p>')</script>y", "xy"},
    {"&lt;b&gt; &amp; &quot;&apos;&#233;&#xE9;&nbsp;.", "<b> & \"'éé ."},
    {"&unknown; & &#; &#0; &#x110000; &#99999999999;", "&unknown; & &#; &#0; &#x110000; &#99999999999;"},
    {"a<!-- <p> -->b", "ab"},
    {"1 < 2", "1 < 2"},
    {"cut <a href=", "cut "},
    {"cut <!-- ", "cut "},
    {"<script>never closed", ""},
    {"", ""},
    {"<", "<"},
    {"&", "&"},
};

static void html_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000);
        assert_int_equal(0, html_text_append(&text, cases[i].html));
        assert_string_equal(cases[i].text, strbuf_str(&text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(html_is_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
