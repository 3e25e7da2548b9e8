/* SPDX-License-Identifier: MIT */
/*
 * Covers HTML that mail programs write, and damaged and hostile HTML.
 */
#include "mail/html_text.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

enum {
    MANY = 60 * 1000, /* repetitions: recursion would overflow the stack, and quadratic time would hang */
    CEILING = 64 * 1000 * 1000,
};

struct example {
    const char *html;
    const char *text;
};

static void check(const struct example *examples, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000);
        assert_int_equal(0, html_to_text(&text, examples[i].html, strlen(examples[i].html)));
        if (strcmp(strbuf_str(&text), examples[i].text) != 0)
            fail_msg("%s\ncame to\n%s", examples[i].html, strbuf_str(&text));
    }
}

TEST(paragraphs_and_lines_are_kept_apart)
{
    static const struct example examples[] = {
        {"<p>Hello <b>there</b></p><p>again</p>", "Hello there\n\nagain\n"},
        {"a  \n b", "a b\n"},
        {"one<br>two<BR/>three", "one\ntwo\nthree\n"},
        {"one<br><br>two", "one\n\ntwo\n"},
        {"<div>one</div><div>two</div>", "one\ntwo\n"},
        {"<h1>Head</h1>text", "Head\n\ntext\n"},
        {"<p></p><p> </p><div><br></div>text<p>&nbsp;</p>", "text\n"},
        {"above<hr>below", "above\n\n---\n\nbelow\n"},
        {"<pre>one</pre>", "one\n"},
        {"<pre>  int x;\n\n    y\n</pre>after", "  int x;\n\n    y\n\nafter\n"},
        {"<b>one </b> <i> two</i>", "one two\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(lists_quotes_and_tables_are_marked)
{
    static const struct example examples[] = {
        {"<ul><li>one<li>two</ul>", "- one\n- two\n"},
        {"<ul><li>one<ul><li>inner</ul><li>two</ul>end", "- one\n  - inner\n- two\n\nend\n"},
        {"<ol><li>one<li>two</ol>", "1. one\n2. two\n"},
        {"<ol start=9><li>nine<li>ten<br>more</ol>", "9. nine\n10. ten\n    more\n"},
        {"<ol start='99999999999999999999'><li>x</ol><ol start=-3><li>y</ol>", "1. x\n\n1. y\n"},
        {"<ul><li></li><li>one</li></ul>", "- one\n"},
        {"<ol><li><ul><li>one<li><blockquote>two</blockquote></ul></ol>", "1. - one\n\n   - > two\n"},
        {"<dl><dt>term<dd>what it<br>means</dl>", "term\n  what it\n  means\n"},
        {"<dl>term<dd>what it means</dl>", "term\n  what it means\n"},
        {"a<blockquote>b<p>c<blockquote>d</blockquote></blockquote>e", "a\n\n> b\n>\n> c\n>\n> > d\n\ne\n"},
        {"<table><tr><th>Item<th>Price<tr><td>Socks<td>2</table>", "Item  Price\nSocks  2\n"},
        {"<table><tr><td></td><td>only</td></tr></table>", "only\n"},
        /* Cells of tables as word processors write them. */
        {"<table><tr><td><p>Item</p></td><td><p>Price</p></td></tr>"
         "<tr><td><p>Socks</p></td>\n<td><div>2</div></td></tr></table>end",
         "Item  Price\nSocks  2\n\nend\n"},
        {"<table><tr><td>Item<br></td><td><br></td><td><br>Price</td></tr>"
         "<tr><td><p></p></td><td><p>2</p></td></tr></table>",
         "Item  Price\n2\n"},
        {"x<table><tr><td></td><td></td></tr><tr><td><p>Item</p></td><td><p>Price</p></td></tr></table>",
         "x\n\nItem  Price\n"},
        {"<blockquote>x<table><tr><td><p>Item</p><td><p>Price</p><tr><td><p>Socks</p><td>2</table></"
         "blockquote>",
         "> x\n>\n> Item  Price\n> Socks  2\n"},
        /* Pages laid out by tables. */
        {"<table><tr><td><p>one</p></td></tr><tr><td><p>two</p></td></tr></table>", "one\n\ntwo\n"},
        {"<table><tr><td><p>one</p><p>two</p></td><td><p>three</p></td></tr><tr><td>four</table>",
         "one\n\ntwo\n\nthree\n\nfour\n"},
        {"<table><tr><td>one</td><td><p>two</p><p>three</p></td><td><p>four</p></td></tr></table>",
         "one  two\n\nthree\n\nfour\n"},
        {"<table><tr><td><table><tr><td><p>one</p><td>two</table></td><td><p>three</p></td></tr></table>",
         "one  two\n\nthree\n"},
        {"<table><tr><td>one<td><ul><li>two<li>three</ul><td><h2>four</h2></table>",
         "one\n\n- two\n- three\n\nfour\n"},
        {"<span style='width:50%;display: inline-block'>Item</span><span style='float:right'>Price</span>",
         "Item  Price\n"},
        {"<span style='display:inline'>one</span><span style='color:red'>word</span>", "oneword\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(a_link_is_followed_by_its_address_unless_its_text_is_the_address)
{
    static const struct example examples[] = {
        {"<a href='https://x.example/?a=1&amp;b=2'>text</a>.", "text <https://x.example/?a=1&b=2>.\n"},
        {"<a href='https://x.example/'>x.example</a>", "x.example\n"},
        {"<a href='https://x.example'>https://x.example/</a>", "https://x.example/\n"},
        {"<a href=' HTTP://X.example/a '>x</a>", "x <HTTP://X.example/a>\n"},
        {"<a href='mailto:ann@x.example?subject=y'>ann@x.example</a>", "ann@x.example\n"},
        {"<a href='mailto:ann@x.example'>Ann</a>", "Ann <ann@x.example>\n"},
        {"<a href='tel:+49'>+49</a>", "+49\n"},
        {"<a href='https://x.example/'><img src=y alt='A picture'></a>",
         "[A picture] <https://x.example/>\n"},
        {"one <a href='https://x.example/'><img src=y></a> two <a href='https://x.example/'></a>three",
         "one <https://x.example/> two three\n"},
        {"a<a href='https://x.example/'><span style='display:none'>x</span></a>b"
         "<a href='https://x.example/'><img src=y width=1 height=1></a>c",
         "abc\n"},
        {"<a href='https://x.example/'>text</a>word", "text <https://x.example/> word\n"},
        {"<a href='https://x.example/'>text</a><b>été</b>, and", "text <https://x.example/> été, and\n"},
        {"<a href='https://x.example/'>a</a><a href='https://y.example/'>b</a>(c)",
         "a <https://x.example/> b <https://y.example/> (c)\n"},
        {"<a href='https://x.example/'>a</a><img src=y alt='picture'>", "a <https://x.example/> [picture]\n"},
        {"(<a href='https://x.example/'>a</a>)!", "(a <https://x.example/>)!\n"},
        {"<a href='#part'>a</a> <a href='javascript:x()'>b</a> <a href='cid:1'>c</a> <a>d</a>", "a b c d\n"},
        {"<a href='https://x.example/a b'>blank</a>", "blank\n"},
        {"<a href='https://x.example/&#155;0m'>control</a>", "control\n"},
        {"<a href='https://x.example/&lt;b'>less</a>", "less\n"},
        {"<a href='https://x.example/&gt;b'>greater</a>", "greater\n"},
        {"<a href='https://x.example/&#x202e;moc'>direction</a>", "direction\n"},
        {"<a href='https://x.example/&#x2028;a'>line</a>", "line\n"},
        {"<a href='https://x.example/a\n'>blank end</a>", "blank end <https://x.example/a>\n"},
        {"<a href='https://x.example/&gt;,&lt;https://y.example/'>brackets</a>", "brackets\n"},
        {"<a href='https://x.example/ü'>umlaut</a>", "umlaut <https://x.example/ü>\n"},
        {"<a href='https://x.example/'>never closed", "never closed <https://x.example/>\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(markdown_has_headings)
{
    static const struct example examples[] = {
        {"<h1>One</h1>text<h2>Two</h2><h6>Six</h6>", "## One\n\ntext\n\n### Two\n\n###### Six\n"},
        {"<h1></h1>text", "text\n"},
        {"<table><tr><td><h1>one</h1><td>two<tr><td>three<td>four</table>", "## one\n\ntwo\nthree  four\n"},
        {"before<table><tr><th>Item<th>Price<tr><td>Socks<td>2</table>after",
         "before\n\nItem  Price\nSocks  2\n\nafter\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000);
        assert_int_equal(0, html_to_markdown(&text, examples[i].html, strlen(examples[i].html), 1));
        if (strcmp(strbuf_str(&text), examples[i].text) != 0)
            fail_msg("%s\ncame to\n%s", examples[i].html, strbuf_str(&text));
    }
}

TEST(entities_become_characters_and_controls_are_removed)
{
    static const struct example examples[] = {
        {"&lt;b&gt; &amp; &quot;&apos;&#233;&#xE9;&eacute;&nbsp;.", "<b> & \"'ééé .\n"},
        {"&unknown; & 1 < 2", "&unknown; & 1 < 2\n"},
        {"Grüße, 日本語 &#x1F600;", "Grüße, 日本語 😀\n"},
        {"<meta charset=iso-8859-1>Grüße", "Grüße\n"},
        {"&#27;[31mred&#7;\x1b]0;title\x07\x7f\xc2\x9b", "[31mred]0;title\n"},
        {"a\xc2\xad"
         "b\xe2\x80\x8b"
         "c\xef\xbb\xbf"
         "d",
         "abcd\n"},
        {"a\xff"
         "b\xc3",
         "a\xef\xbf\xbd"
         "b\xef\xbf\xbd\n"},
        {"\xef\xbb\xbf<p>mark</p>", "mark\n"},
    };
    check(examples, ARRAY_LEN(examples));

    static const char with_nul[] = "<p>be\0fore</p><p>after</p>";
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000);
    assert_int_equal(0, html_to_text(&text, with_nul, sizeof(with_nul) - 1));
    assert_string_equal("be\xef\xbf\xbd"
                        "fore\n\nafter\n",
                        strbuf_str(&text));
}

TEST(hidden_elements_are_left_out)
{
    static const struct example examples[] = {
        {"<head><title>t</title><style>p{}</style></head>x<script>alert('</p>')</script>y", "xy\n"},
        {"<style type='text/css'>a > b { c: d }</style>x", "x\n"},
        {"a<!-- <p> -->b<!--[if mso]>c<![endif]-->d", "abd\n"},
        {"<![if !mso]>a<![endif]>", "a\n"},
        {"<!--[if mso]>a<![endif]-->b<!--[if !mso]><!-->c<!--<![endif]-->", "bc\n"},
        {"<?xml version='1.0'?><!DOCTYPE html><o:p></o:p>a", "a\n"},
        {"<div style='color:red; DISPLAY : none'>preview</div>text", "text\n"},
        {"<div hidden>preview<p>more</div>text", "text\n"},
        {"<div style='display:block'>text</div>", "text\n"},
        {"<script>never closed", ""},
        {"<template>for a script</template>y", "y\n"},
        {"<title>a <p> in a title</title>y", "y\n"},
        {"<template>for<p>a<table><td>script</template>y", "y\n"},
        {"<svg><desc>x<p>y</svg>z", "z\n"},
        {"<svg/>y<svg><style/><title/></svg>z", "yz\n"},
        {"<div hidden>x<br/>x</div/>y", "y\n"},
        {"x</>y</ p>z</3 a comment>", "xyz\n"},
        {"", ""},
        {"<p> </p>", ""},
        {"<a href='#top'><img src=y><img src='cid:1' alt=' '></a>", ""},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(damaged_html_loses_no_text)
{
    static const struct example examples[] = {
        {"</p></div>one</b><td>two", "one  two\n"},
        {"<b><i>one</b>two</i>", "onetwo\n"},
        {"<td width=\"100%\"\">cell", "cell\n"},
        {"<a href=\"https://x.example/\"target=y>text</a>", "text <https://x.example/>\n"},
        {"<p class=>one<p =x>two<p 'x>three", "one\n\ntwo\n\nthree\n"},
        {"if (a<b && c>d)", "if (ad)\n"},
        {"<", "<\n"},
        {"I <3 you, and <2 of them", "I <3 you, and <2 of them\n"},
        {"&", "&\n"},
        {"cut <!-- ", "cut\n"},
        {"<html><body>one</body></html>two<html><body>three", "onetwothree\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

/* ---- hostile HTML, which must be read in a short time */

static void append_repeated(struct strbuf *html, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        strbuf_append_str(html, text);
}

TEST(text_after_deep_nesting_is_read)
{
    static const char *const tags[] = {"<div>", "<b>",        "<blockquote>", "<ul><li>", "<table><tr><td>",
                                       "<pre>", "<a href=x>", "<form>",       "<font>",   "<span hidden=''>"};
    for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
        _cleanup_strbuf_ struct strbuf html = STRBUF_INIT(CEILING);
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CEILING);
        append_repeated(&html, tags[i], MANY);
        append_repeated(&html, "</i></em>", MANY);
        strbuf_append_str(&html, "the end");
        assert_int_equal(0, html_to_text(&text, html.data, html.len));
        if (strstr(strbuf_str(&text), "the end\n") == NULL)
            fail_msg("%s", tags[i]);
    }
}

TEST(deep_quotes_repeat_only_a_few_marks)
{
    _cleanup_strbuf_ struct strbuf html = STRBUF_INIT(CEILING);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CEILING);
    append_repeated(&html, "<blockquote>", 240);
    append_repeated(&html, "x<br>", 10000);
    assert_int_equal(0, html_to_text(&text, html.data, html.len));
    assert_in_range(text.len, 10000 * 3, 10000 * 30);
}

TEST(tags_of_many_attributes_are_read_in_linear_time)
{
    static const char *const beginnings[] = {
        "<a ",       "<a b=\">\" ",      "<script><b c=\"</script><a ",   "<!-- --!><a ",
        "<a b='<i ", "<!-- <a \"--><a ", "<textarea><a b='</textarea><a "};
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
        _cleanup_strbuf_ struct strbuf html = STRBUF_INIT(CEILING);
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CEILING);
        strbuf_append_str(&html, beginnings[i]);
        for (unsigned int number = 0; number < MANY; number++)
            strbuf_appendf(&html, "a%x ", number);
        strbuf_append_str(&html, ">the end");
        assert_int_equal(0, html_to_text(&text, html.data, html.len));
        assert_non_null(strstr(strbuf_str(&text), "the end"));
    }
}

TEST(html_of_repeated_cut_tokens_is_read)
{
    static const char *const beginnings[] = {
        "<", "<a ", "<a b='", "<a b=\"<a c='", "</",      "<!--",  "<![if ", "<!DOCTYPE ",        "<?",
        "&", "&#",  "&amp",   "<script>",      "<title>", "<a b=", "]]>",    "<p style='display "};
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
        _cleanup_strbuf_ struct strbuf html = STRBUF_INIT(CEILING);
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CEILING);
        append_repeated(&html, beginnings[i], MANY);
        assert_int_equal(0, html_to_text(&text, html.data, html.len));
        assert_in_range(text.len, 0, 2 * html.len);
    }
}

/* g_uri_peek_scheme() would keep each scheme until the program ends. */
TEST(schemes_of_links_are_not_interned)
{
    static const char html[] = "<a href='made-up-by-a-sender:x'>text</a>";
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100);
    assert_int_equal(0, html_to_text(&text, html, strlen(html)));
    assert_string_equal("text\n", strbuf_str(&text));
    assert_int_equal(0, g_quark_try_string("made-up-by-a-sender"));
}

TEST(any_bytes_give_text_without_control_characters)
{
    static const char *const pieces[] = {
        "<p>",         "</p>", "<ul>", "<li>",     "</ul>",        "<pre>",
        "</pre>",      "<!--", "-->",  "<script>", "</script>",    "<a href='http://x/'>",
        "</a>",        "<td>", "é",    "\xc2",     "\xe2\x80",     "\n",
        "  ",          "&#",   "&lt;", "'",        "\"",           ">",
        "<",           "\x1b", "\x85", "word",     "<div hidden>", "</div>",
        "<blockquote>"};
    GRand *random = g_rand_new_with_seed(1);
    for (unsigned int round = 0; round < 300; round++) {
        _cleanup_strbuf_ struct strbuf html = STRBUF_INIT(CEILING);
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CEILING);
        for (unsigned int i = 0; i < 300; i++)
            strbuf_append_str(&html, pieces[g_rand_int_range(random, 0, (int)ARRAY_LEN(pieces))]);
        assert_int_equal(0, html_to_text(&text, html.data, html.len));
        assert_true(g_utf8_validate(strbuf_str(&text), (gssize)text.len, NULL));
        for (const char *at = strbuf_str(&text); *at != '\0'; at = g_utf8_next_char(at))
            assert_true(*at == '\n' || !g_unichar_iscntrl(g_utf8_get_char(at)));
    }
    g_rand_free(random);
}

TEST(text_over_the_bound_is_cut)
{
    static const char html[] = "<p>first<p>second<p>third";
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(16);
    assert_int_equal(-EMSGSIZE, html_to_text(&text, html, strlen(html)));
    assert_memory_equal("first\n\nsecond", strbuf_str(&text), strlen("first\n\nsecond"));
}

TEST(text_of_html_is_appended)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100);
    strbuf_append_str(&text, "before\n");
    assert_int_equal(0, html_to_text(&text, " <p>text", 8));
    assert_string_equal("before\ntext\n", strbuf_str(&text));
}
