/* SPDX-License-Identifier: MIT */
/*
 * What a mail adds, from texts as mail programs write them.
 */
#include "mail/new_text.h"

#include <errno.h>
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

struct example {
    const char *text;
    const char *added;
};

static void check(const struct example *examples, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(10000);
        assert_int_equal(0, new_text(&added, examples[i].text, strlen(examples[i].text)));
        if (strcmp(strbuf_str(&added), examples[i].added) != 0)
            fail_msg("%s\n---- came to\n%s", examples[i].text, strbuf_str(&added));
    }
}

static void what_is_all_new_stays_as_it_is(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"Hello,\n\n\nthere.\n", "Hello,\n\n\nthere.\n"},
        {"no newline", "no newline\n"},
        {"\r\nHello\r\n\r\nthere\r\n", "Hello\r\n\nthere\r\n"},
        {"Title\n=====\n\ntext\n-----\n", "Title\n=====\n\ntext\n-----\n"},
        {"He wrote:\nnothing\n", "He wrote:\nnothing\n"},
        {"On Monday he wrote:\nnothing\n", "On Monday he wrote:\nnothing\n"},
        {"From: me\nwith love\n", "From: me\nwith love\n"},
        {"To do:\n- a\n- b\n", "To do:\n- a\n- b\n"},
        {"a -- b\n--c\n---\nd\n", "a -- b\n--c\n---\nd\n"},
        {"-- \xff\xfe --\n", "-- \xff\xfe --\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

static void quotes_go_with_the_line_above_them(void **state)
{
    (void)state;
    static const char *const attributions[] = {
        "On Fri, Nov 20, 2026 at 10:14 AM Ann Example <ann@x.example> wrote:",
        "On Fri, Nov 20, 2026 at 10:14 AM Ann Example <ann.example@quite-long.example>\nwrote:",
        "On 20/11/2026, Ann Example\nof the Example Company\n<ann@x.example>\nwrote:",
        "On 2026-11-20 10:14, Ann wrote:",
        "Ann Example <ann@x.example> writes:",
        "Ann wrote:",
        "Am Fr., 20. Nov. 2026 um 10:14 Uhr schrieb Ann <ann@x.example>:",
        "Am 20.11.26 um 10:14 schrieb Ann Example:",
        "Le ven. 20 nov. 2026 à 10:14, Ann <ann@x.example> a écrit :",
        "Le 20/11/2026 à 10:14, Ann a écrit\xc2\xa0:",
        "El vie, 20 nov 2026 a las 10:14, Ann (<ann@x.example>) escribió:",
        "Il giorno ven 20 nov 2026 alle ore 10:14 Ann <ann@x.example> ha scritto:",
        "Em sex., 20 de nov. de 2026 às 10:14, Ann <ann@x.example> escreveu:",
        "Op vr 20 nov. 2026 om 10:14 schreef Ann <ann@x.example>:",
        "Den fre 20 nov. 2026 kl 10:14 skrev Ann <ann@x.example>:",
        "pt., 20 lis 2026 o 10:14 Ann <ann@x.example> napisał(a):",
        "W dniu 20.11.2026 o 10:14, Ann pisze:",
        "пт, 20 нояб. 2026 г. в 10:14, Ann <ann@x.example>:",
        "20.11.2026 10:14, Ann пишет:",
        "2026年11月20日(金) 10:14 Ann <ann@x.example>:",
        "Ann <ann@x.example> 于2026年11月20日周五 10:14写道：",
        "2026-11-20 10:14 GMT+01:00 Ann <ann@x.example>:",
        "*On Fri, Nov 20, 2026 at 10:14, Ann wrote:*",
    };
    for (size_t i = 0; i < ARRAY_LEN(attributions); i++) {
        char text[1000];
        snprintf(text, sizeof(text), "Yes.\n\n%s\n\n> Will you\n> > come?\n>\n> Ann\n", attributions[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
        snprintf(text, sizeof(text), "%s\n> Will you?\n\nYes.\n", attributions[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
        snprintf(text, sizeof(text), "%s\r\n> Will you?\r\nYes.\r\n", attributions[i]);
        check(&(struct example){text, "Yes.\r\n"}, 1);
    }
}

static void answers_between_the_lines_stay(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"Ann wrote:\n> Come?\n\nYes.\n\n\n> When?\nAt ten.\n\nBob\n", "Yes.\n\nAt ten.\n\nBob\n"},
        {" > indented\nnew\n>\n>still\nmore\n", "new\n\nmore\n"},
        {"new\n> last without newline", "new\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

static void history_that_is_not_quoted_ends_what_is_new(void **state)
{
    (void)state;
    static const char *const histories[] = {
        "On Fri, Nov 20, 2026, 10:14 AM, Ann <ann@x.example> wrote:",
        "Am 20.11.2026 um 10:14 schrieb Ann:",
        "-----Original Message-----\nFrom: Ann",
        "-----Ursprüngliche Nachricht-----\nVon: Ann",
        "-------- Original-Nachricht --------",
        "---------- Forwarded message ---------\nFrom: Ann",
        "-------- Message original --------",
        "-----Mensaje original-----",
        "-----原始邮件-----",
        "-----Исходное сообщение-----",
        "Begin forwarded message:",
        "________________________________\nFrom: Ann <ann@x.example>\nSent: Friday, 20 November 2026 "
        "10:14\nTo: Bob\n"
        "Subject: Dinner",
        "---\n\nFrom: Ann\n\nDate: Friday\n\nTo: Bob\n\nSubject: Dinner",
        "*From:* Ann\n*Sent:* Friday\n*To:* Bob\n*Subject:* Dinner",
        "From: Ann\nTo: Bob\nCc: Carol\nSubject: Dinner",
        "Von: Ann\nGesendet: Freitag\nAn: Bob\nBetreff: Essen",
        "De : Ann\nEnvoyé : vendredi\nÀ : Bob\nObjet : Dîner",
        "De: Ann\nEnviado el: viernes\nPara: Bob\nAsunto: Cena",
        "Da: Ann\nInviato: venerdì\nA: Bob\nOggetto: Cena",
        "Van: Ann\nVerzonden: vrijdag\nAan: Bob\nOnderwerp: Eten",
        "Från: Ann\nSkickat: fredag\nTill: Bob\nÄmne: Middag",
        "Fra: Ann\nSendt: fredag\nTil: Bob\nEmne: Middag",
        "Od: Ann\nWysłano: piątek\nDo: Bob\nTemat: Obiad",
        "От: Ann\nОтправлено: пятница\nКому: Bob\nТема: Ужин",
        "差出人: Ann\n送信日時: 金曜日\n宛先: Bob\n件名: 夕食",
        "发件人： Ann\n发送时间： 星期五\n收件人： Bob\n主题： 晚餐",
    };
    for (size_t i = 0; i < ARRAY_LEN(histories); i++) {
        char text[1000];
        snprintf(text, sizeof(text), "Yes.\n\n%s\n\nWill you come?\n", histories[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
    }
}

static void signatures_go(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"Yes.\n-- \nBob\nExample Ltd\n", "Yes.\n"},
        {"Yes.\r\n-- \r\nBob\r\n", "Yes.\r\n"},
        {"Yes.\n\n--\nBob\n", "Yes.\n"},
        {"Yes.\n--\nBob\nExample Ltd\n1 Long Street\nTown\nCounty\nLand\n\nOn Friday Ann wrote:\n> a\n> b\n",
         "Yes.\n"},
        {"a\n--\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n",
         "a\n--\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n"},
        {"> quoted\n> -- \n> Ann\n\nYes.\n", "Yes.\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

static void what_has_nothing_new_is_given_whole(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"> only\n> a quote\n", "> only\n> a quote\n"},
        {"\n---------- Forwarded message ---------\nFrom: Ann\nDate: Friday\n\nHello\n",
         "\n---------- Forwarded message ---------\nFrom: Ann\nDate: Friday\n\nHello\n"},
        {"-- \nBob\n", "-- \nBob\n"},
        {"________\nFrom: Ann\nSent: Friday\nTo: Bob\n", "________\nFrom: Ann\nSent: Friday\nTo: Bob\n"},
        {"\n \n", "\n \n"},
        {"", ""},
    };
    check(examples, ARRAY_LEN(examples));
}

static void any_bytes_come_to_no_more_than_they_were(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "> ",    "\n",    "On ",  "1",        "10:14", "@",     "wrote:",           ":",     "-- ",  "--",
        "From:", "Sent:", "To:",  "Subject:", "\r\n",  "-----", "Original Message", "word ", "\xff", "\xc2",
        "：",    "*",     "\n\n", "___"};
    GRand *random = g_rand_new_with_seed(2);
    for (unsigned int round = 0; round < 2000; round++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100 * 1000);
        _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(100 * 1000);
        for (unsigned int i = 0; i < 60; i++)
            strbuf_append_str(&text, pieces[g_rand_int_range(random, 0, (int)ARRAY_LEN(pieces))]);
        strbuf_append(&text, "\0x", 2);
        assert_int_equal(0, new_text(&added, text.data, text.len));
        assert_in_range(added.len, 1, text.len + 1);
    }
    g_rand_free(random);
}

static void long_texts_are_read_in_one_pass(void **state)
{
    (void)state;
    static const char *const lines[] = {"wrote:\n",
                                        "On 1:\n",
                                        "1\n",
                                        "From:\n",
                                        "--\n",
                                        "\n",
                                        "From: a\nTo: b\n",
                                        "On a b c d e f g 1 2 3 @ : :\n",
                                        "-----",
                                        ":",
                                        ">",
                                        "*"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64 * 1000 * 1000);
        _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(64 * 1000 * 1000);
        while (text.len < 1000 * 1000)
            strbuf_append_str(&text, lines[i]);
        assert_int_equal(0, new_text(&added, text.data, text.len));
        assert_in_range(added.len, 1, text.len + 1);
    }
}

/* Lines that could begin one are put together in a place of fixed size. */
static void attributions_of_every_length_are_none_without_their_end(void **state)
{
    (void)state;
    char text[1000];
    for (int total = 360; total < 440; total++) {
        for (int first = 1; first < total; first += 7) {
            int len = snprintf(text, sizeof(text), "On %0*d\n%0*d\nx\n", first, 1, total - first, 1);
            _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(2000);
            assert_int_equal(0, new_text(&added, text, (size_t)len));
            assert_string_equal(text, strbuf_str(&added));
        }
    }
}

static void it_is_appended_up_to_the_ceiling(void **state)
{
    (void)state;
    _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(20);
    strbuf_append_str(&added, "before\n");
    assert_int_equal(0, new_text(&added, "a\n> b", 5));
    assert_string_equal("before\na\n", strbuf_str(&added));
    assert_int_equal(-EMSGSIZE, new_text(&added, "a line of more bytes\n", 21));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_all_new_stays_as_it_is),
        cmocka_unit_test(quotes_go_with_the_line_above_them),
        cmocka_unit_test(answers_between_the_lines_stay),
        cmocka_unit_test(history_that_is_not_quoted_ends_what_is_new),
        cmocka_unit_test(signatures_go),
        cmocka_unit_test(what_has_nothing_new_is_given_whole),
        cmocka_unit_test(any_bytes_come_to_no_more_than_they_were),
        cmocka_unit_test(long_texts_are_read_in_one_pass),
        cmocka_unit_test(attributions_of_every_length_are_none_without_their_end),
        cmocka_unit_test(it_is_appended_up_to_the_ceiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
