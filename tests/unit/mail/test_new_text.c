/* SPDX-License-Identifier: MIT */
/*
 * Covers the marks that mail programs write around history, and answers between quotes.
 */
#include "mail/new_text.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

struct example {
    const char *text;
    const char *added;
};

static void check_kind(enum new_text_kind kind, const struct example *examples, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(10000);
        assert_int_equal(0, new_text_append(&added, kind, examples[i].text, strlen(examples[i].text)));
        if (strcmp(strbuf_str(&added), examples[i].added) != 0)
            fail_msg("%s\n---- came to\n%s", examples[i].text, strbuf_str(&added));
    }
}

static void check(const struct example *examples, size_t len)
{
    check_kind(NEW_TEXT_OF_ANSWER, examples, len);
}

TEST(text_without_history_is_unchanged)
{
    static const struct example examples[] = {
        {"Hello,\n\n\nthere.\n", "Hello,\n\n\nthere.\n"},
        {"no newline", "no newline\n"},
        {"See you soon.\nB", "See you soon.\nB\n"},
        {"\r\nHello\r\n\r\nthere\r\n", "Hello\r\n\nthere\r\n"},
        {"Title\n=====\n\ntext\n-----\n", "Title\n=====\n\ntext\n-----\n"},
        {"He wrote:\nnothing\n", "He wrote:\nnothing\n"},
        {"On Monday he wrote:\nnothing\n", "On Monday he wrote:\nnothing\n"},
        {"From: me\nwith love\n", "From: me\nwith love\n"},
        {"To do:\n- a\n- b\n", "To do:\n- a\n- b\n"},
        {"a -- b\n--c\n---\nd\n", "a -- b\n--c\n---\nd\n"},
        {"-- \xff\xfe --\n", "-- \xff\xfe --\n"},
        {"Date: Friday 20 November\nTime: 10:14\nPlace: 1 Long Street\n",
         "Date: Friday 20 November\nTime: 10:14\nPlace: 1 Long Street\n"},
        {"To: Bob\nSubject: Lunch\n\nis how it begins.\n", "To: Bob\nSubject: Lunch\n\nis how it begins.\n"},
        {"From: me\n\nfirst\nsecond\nthird\n\nDate: never\nTo: you\n",
         "From: me\n\nfirst\nsecond\nthird\n\nDate: never\nTo: you\n"},
        {"2026-11-20 10:14\n20.11.2026 at 10:14\nNov 20, 2026, 10:14 AM\n",
         "2026-11-20 10:14\n20.11.2026 at 10:14\nNov 20, 2026, 10:14 AM\n"},
        {"----- Fill in below -----\n\nYes.\n", "----- Fill in below -----\n\nYes.\n"},
        {"On Friday I read what\nAnn wrote:\nnothing\n", "On Friday I read what\nAnn wrote:\nnothing\n"},
        {"As ann@x.example wrote in 2026, at 10:14, this is needed:\nnothing\n",
         "As ann@x.example wrote in 2026, at 10:14, this is needed:\nnothing\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(quotes_and_their_attribution_are_left_out)
{
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
        "2026/11/20 Ann Example <ann@x.example>",
        "On Fri, Nov 20, 2026 at 10:14 AM Ann Example <ann@x.example\n> wrote:",
        "---- Ann Example wrote ----",
        "Op 20 nov. 2026 om 10:14 heeft Ann <ann@x.example> het volgende geschreven:",
        "På 20. november 2026 på 10:14, Ann (ann@x.example) skrev:",
        "pe 20. marraskuuta 2026 klo 10.14 Ann\n<ann@x.example> kirjoitti:",
        "Dne pá 20. 11. 2026 10:14 uživatel Ann <ann@x.example> napsal:",
        "2026. 11. 20. 10:14 keltezéssel, Ann írta:",
        "Pe vin., 20 nov. 2026 la 10:14, Ann <ann@x.example> a scris:",
        "Ann <ann@x.example>, 20 Kas 2026 Cum, 10:14 tarihinde şunu yazdı:",
        "Στις Παρ 20 Νοε 2026 στις 10:14, ο Ann <ann@x.example> έγραψε:",
        "Vào 10:14 20 tháng 11, 2026, Ann <ann@x.example> đã viết:",
        "2026年11月20日 10:14、Ann <ann@x.example>のメール:",
        "2026년 11월 20일 (금) 오전 10:14, Ann <ann@x.example>님이 작성:",
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

TEST(a_first_mail_keeps_every_line)
{
    static const char *const texts[] = {
        "Run this:\n\n> npm install\n",
        "> npm install\n\nis what you run.\n",
        "From the prompt:\n> a\nthen\n> b\n",
        "The template:\n\nFrom: me\nTo: you\nSubject: it\n\nis all there is.\n",
        "From: Berlin\nTo: Paris\nDate: 20 November, 10:14\nSubject: a trip\n\nSee you.\n",
        "_____\nFrom: ann@x.example\nSent: Friday 10:14\nTo: bob@x.example\nSubject: x\n\nis a header.\n",
        "> On Fri, 20 Nov 2026 at 10:14 Ann wrote:\n> > Lunch?\n\nis how programs quote.\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check_kind(NEW_TEXT_OF_FIRST, &(struct example){texts[i], texts[i]}, 1);
}

TEST(a_text_with_an_attribution_counts_as_an_answer)
{
    static const struct example examples[] = {
        {"Yes.\n\nAnn wrote:\n> Lunch?\n", "Yes.\n"},
        {"Yes.\n\nOn Fri, 20 Nov 2026 at 10:14 Ann wrote:\nLunch?\n", "Yes.\n"},
        {"Yes.\n\n-----Original Message-----\nFrom: Ann\n", "Yes.\n"},
        {"> Lunch?\nYes.\n\nAnn wrote:\n> At ten?\n", "Yes.\n"},
        {"Yes.\n\n-- Reply above this line --\nTicket 1\n", "Yes.\n"},
        {"Yes.\n-- \nBob\n", "Yes.\n"},
    };
    check_kind(NEW_TEXT_OF_FIRST, examples, ARRAY_LEN(examples));
}

TEST(a_forward_keeps_unmarked_history)
{
    static const char headers[] = "From: Ann\nSent: Friday\nTo: Bob\nSubject: Lunch\n\nLunch?\n-- \nAnn\n";
    static const char quote[] = "Ann wrote:\n> Lunch?\n";
    static const char *const beginnings[] = {"See below.\n\n", "See below.\n-- \nBob\n\n"};
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
        char text[500];
        char added[500];
        snprintf(text, sizeof(text), "%s________\n%s", beginnings[i], headers);
        snprintf(added, sizeof(added), "See below.\n%s\n%s", i == 0 ? "\n________" : "", headers);
        check_kind(NEW_TEXT_OF_FORWARD, &(struct example){text, added}, 1);
        snprintf(text, sizeof(text), "%s%s", beginnings[i], quote);
        snprintf(added, sizeof(added), "See below.\n\n%s", quote);
        check_kind(NEW_TEXT_OF_FORWARD, &(struct example){text, added}, 1);
    }
}

#define LONG_QUOTE "> It would be good to meet on Tuesday at the office and to talk about the"

TEST(rests_of_wrapped_quotes_are_left_out)
{
    static const struct example examples[] = {
        {"Yes.\n\n" LONG_QUOTE "\nplan of Ann.\n> When?\n", "Yes.\n"},
        {LONG_QUOTE "\nplan\n\nYes.\n", "Yes.\n"},
        {"Yes.\n\n" LONG_QUOTE "\nplan, which is long, since nobody thinks that it can be made in a day\n"
         "or two.\n\nBob\n",
         "Yes.\n\nBob\n"},
        {LONG_QUOTE "\r\nplan.\r\n\r\nYes.\r\n", "Yes.\r\n"},
        {"Yes.\n" LONG_QUOTE "\nplan", "Yes.\n"},
        {LONG_QUOTE "\nplan of\n" LONG_QUOTE "\nExample Ltd\n> of ours\n\nYes.\n", "Yes.\n"},
        {"Yes.\n\n> > On Friday, 20 November 2026, Ann Example <ann.example@x.example>\nwrote:\n> > > "
         "Come?\n",
         "Yes.\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(an_answer_directly_under_a_quote_is_kept)
{
    static const struct example examples[] = {
        {"> Come?\nyes\n", "yes\n"},
        {"> Shall we?\nyes, at ten\n> Where?\nhere\n", "yes, at ten\n\nhere\n"},
        {LONG_QUOTE " plan?\nyes\n\nBob\n", "yes\n\nBob\n"},
        {LONG_QUOTE "\nYes, it would.\n> plan\n", "Yes, it would.\n"},
        {LONG_QUOTE "\nplan? yes,\nit would.\n", "plan? yes,\nit would.\n"},
        {LONG_QUOTE "\n\nplan\n", "plan\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(a_line_that_asks_for_a_reply_above_it_ends_the_new_text)
{
    static const char *const lines[] = {
        "##- Please type your reply above this line -##",
        "Reply above this line.",
        "--------------- Reply ABOVE THIS LINE to post a comment ---------------",
        "=== REPLY ABOVE THIS LINE ===",
        "-- reply above this line --",
        "Write ABOVE THIS LINE to post a reply",
        "##- Bitte geben Sie Ihre Antwort oberhalb dieser Zeile ein -##",
        "##- Bitte geben Sie Ihre Antwort über dieser Zeile ein. -##",
        "##- Veuillez saisir une réponse au-dessus de cette ligne -##",
        "##- Escriba su respuesta por encima de esta línea -##",
        "##- Scrivi la tua risposta sopra questa riga -##",
        "##- Por favor, escreva sua resposta acima desta linha -##",
        "Antwoord boven deze lijn alstublieft",
        "##- Skriv ditt svar ovanför denna rad -##",
        "##- Skriv dit svar over denne linje -##",
        "======== Ved svar: Svar over denne linjen og behold saksnummer. ========",
        "##- Kirjoita vastauksesi tämän rivin yläpuolelle -##",
        "----- Odpowiedz powyżej tej linii -----",
        "##- Napište prosím svou odpověď nad tento řádek -##",
        "##- Kérjük, a választ e sor fölé írja -##",
        "##- Introduceți răspunsul deasupra acestei linii -##",
        "----- Bu satırın üstüne yanıtlayın -----",
        "##- Введите свой ответ над этой строкой -##",
        "----- Відповідайте вище цього рядка -----",
        "##- Γράψτε την απάντησή σας πάνω από αυτή τη γραμμή -##",
        "##- Vui lòng nhập phản hồi phía trên dòng này -##",
        "##- 请在此行上方输入您的回复 -##",
        "##- この行より上に返信を書いてください -##",
        "##- 이 줄 위에 회신을 입력하세요 -##",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char text[1000];
        snprintf(text, sizeof(text), "Yes.\n\n%s\n\nYour ticket 4711\n", lines[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
    }
    static const struct example examples[] = {
        {"Please sign above this line.\nBob\n", "Please sign above this line.\nBob\n"},
        {"##- Please type your reply above this line -##\n\nHello\n",
         "##- Please type your reply above this line -##\n\nHello\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(text_above_an_attribution_is_kept)
{
    static const char *const words[] = {
        "2 apples",          "On the other hand", "On the 20th at 10:14 I come",
        "Ann came at 10:14", "From: Bob",         "On 20 November I saw that 10:14 < 10:15",
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        char text[1000];
        char added[100];
        snprintf(text, sizeof(text),
                 "%s\nOn Fri, 20 Nov 2026 at 10:14 Ann <ann@x.example> wrote:\n> Will you?\n", words[i]);
        snprintf(added, sizeof(added), "%s\n", words[i]);
        check(&(struct example){text, added}, 1);
    }
}

TEST(answers_between_quoted_lines_are_kept)
{
    static const struct example examples[] = {
        {"Ann wrote:\n> Come?\n\nYes.\n\n\n> When?\nAt ten.\n\nBob\n", "Yes.\n\nAt ten.\n\nBob\n"},
        {" > indented\nnew\n>\n>still\nmore\n", "new\n\nmore\n"},
        {"new\n> last without newline", "new\n"},
        {"Hello\n\nSent from my iPhone\n\n> Come?\nYes.\n", "Hello\n\nYes.\n"},
        {"Title\n=====\n> a\nb\n", "Title\n=====\n\nb\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(unquoted_history_ends_the_new_text)
{
    static const char *const histories[] = {
        "On Fri, Nov 20, 2026, 10:14 AM, Ann <ann@x.example> wrote:",
        "Ann <ann@x.example>, 20 Kas 2026 Cum, 10:14 tarihinde şunu yazdı:",
        "Ann <ann@x.example> ezt írta (időpont: 2026. nov. 20., P, 10:14):",
        "Ann <ann@x.example> 于2026年11月20日周五 10:14写道：",
        "пт, 20 лист. 2026 р. о 10:14 Ann <ann@x.example> пише:",
        "Am 20.11.2026 um 10:14 schrieb Ann:",
        "-----Original Message-----\nFrom: Ann",
        "-----Ursprüngliche Nachricht-----\nVon: Ann",
        "-------- Original-Nachricht --------",
        "-------- Message original --------",
        "-----Mensaje original-----",
        "-----原始邮件-----",
        "-----Исходное сообщение-----",
        "-----Messaggio originale-----",
        "-----Mensagem original-----",
        "-----Oorspronkelijk bericht-----",
        "-----Ursprungligt meddelande-----",
        "-----Oprindelig meddelelse-----",
        "-----Opprinnelig melding-----",
        "-----Alkuperäinen viesti-----",
        "-----Wiadomość oryginalna-----",
        "-----Původní zpráva-----",
        "-----Eredeti üzenet-----",
        "-----Orijinal Mesaj-----",
        "-----Αρχικό μήνυμα-----",
        "-----元のメッセージ-----",
        "-----원본 메시지-----",
        "-------- Bericht van een ander --------\nVan: Ann\nDatum: vrijdag\nAan: Bob",
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
        "De : Ann\n À : Bob\n Envoyé le : vendredi 20 novembre\n Objet : Dîner",
        "====\n\nMessage du : 20/11/2026 10:14\nDe : Ann\nA : Bob\nSujet : Dîner",
        "De: Ann\nEnviada em: sexta-feira\nPara: Bob\nAssunto: Jantar",
        "Lähettäjä: Ann\nLähetetty: perjantai\nVastaanottaja: Bob\nAihe: Illallinen",
        "Od: Ann\nOdesláno: pátek\nKomu: Bob\nPředmět: Večeře",
        "Feladó: Ann\nElküldve: péntek\nCímzett: Bob\nTárgy: Vacsora",
        "De la: Ann\nTrimis: vineri\nCătre: Bob\nSubiect: Cina",
        "Kimden: Ann\nGönderildi: Cuma\nKime: Bob\nKonu: Yemek",
        "Από: Ann\nΣτάλθηκε: Παρασκευή\nΠρος: Bob\nΘέμα: Δείπνο",
        "Từ: Ann\nĐã gửi: Thứ Sáu\nĐến: Bob\nChủ đề: Bữa tối",
        "보낸 사람: Ann\n보낸 날짜: 금요일\n받는 사람: Bob\n제목: 저녁",
        "Date: Fri, 20 Nov 2026 10:14:00 +0100\nFrom: ann@x.example\nTo: bob@x.example\nSubject: Dinner",
        "Subject: Dinner\nDate: Friday\nFrom: Ann\nTo: Bob",
        "Date: Fri, 20 Nov 2026 10:14:00 +0100\nTo: bob@x.example",
        "From: Ann Example of the Example Company\n<ann@x.example>\nSent: Friday\nTo: Bob",
        "---- On Fri, 20 Nov 2026 10:14:00 +0100 ann@x.example wrote ----",
        "--- On Fri, 20/11/26, Ann <ann@x.example> wrote:",
        "20.11.2026, 10.14, \"Ann\" <ann@x.example>:",
        "10:14 AM, November 20, 2026, \"Ann\" <ann@x.example>:",
        "Friday, 20 November 2026, 10:14 AM +0100 from Ann <ann@x.example>:",
        "пт, 20 нояб. 2026 г. в 10:14, Ann\n<ann@x.example>:",
        "Dnia 20 listopada 2026 10:14 Ann <ann@x.example> napisał(a):",
        "W dniu 20 listopada 2026 10:14 użytkownik Ann <ann@x.example>\nnapisał:",
        "In data 20 novembre 2026 10:14:00 Ann <ann@x.example> ha scritto:",
        "Den 20 november 2026 10:14:00, Ann (ann@x.example) skrev:",
        "Sent from my iPhone\n\nOn Nov 20, 2026, at 10:14, Ann <ann@x.example> wrote:",
        "Get Outlook for iOS<https://x.example/o>\n________\nFrom: Ann\nSent: Friday\nTo: Bob",
    };
    for (size_t i = 0; i < ARRAY_LEN(histories); i++) {
        char text[1000];
        snprintf(text, sizeof(text), "Yes.\n\n%s\n\nWill you come?\n", histories[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
    }
}

TEST(signatures_are_left_out)
{
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

TEST(lines_are_joined_to_an_attribution_only_if_they_begin_one)
{
    static const struct example examples[] = {
        {"Hi.\n\nAnn wrote:\nWrite to Bob <b@x.example> by 20.11.2026 10:14:\nyes\n",
         "Hi.\n\nAnn wrote:\nWrite to Bob <b@x.example> by 20.11.2026 10:14:\nyes\n"},
        {"On Monday I am away.\nOn Fri, 20 Nov 2026 at 10:14, Ann <a@x.example>\nwrote:\n> q\n",
         "On Monday I am away.\n"},
        {"Yes.\n\nOn Friday, November 20,\n2026 at 10:14 AM, Ann Smith\n<a@x.example> wrote:\n> q\n",
         "Yes.\n"},
        {"Yes.\n\nFri, 5 Nov, Ann <a@x.example> wrote:\nq\n", "Yes.\n"},
        {"Yes.\n\n2026 Nov 20 Ann\nSmith <a@x.example> wrote:\nq\n", "Yes.\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(lines_of_no_break_spaces_are_blank)
{
    static const struct example examples[] = {
        {"Yes.\n\u00a0\nAnn wrote:\n \u00a0 \r\n> q\n\u00a0\n", "Yes.\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(a_line_that_a_telephone_adds_is_left_out)
{
    static const char *const lines[] = {
        "Sent from my iPhone",
        "Sent from Mail for Windows",
        "Sent from my Android device with K-9 Mail. Please excuse my brevity.",
        "Get Outlook for Android<https://x.example/o>",
        "Von meinem iPhone gesendet",
        "Gesendet von Outlook für Android<https://x.example/o>",
        "Gesendet mit der mobilen Mail App",
        "Envoyé de mon iPhone",
        "Envoyé à partir de Outlook pour iOS<https://x.example/o>",
        "Enviado desde mi iPhone",
        "Inviato da iPhone",
        "Enviado do meu iPhone",
        "Verstuurd vanaf mijn iPhone",
        "Skickat från min iPhone",
        "iPhone’umdan gönderildi",
        "Надіслано з iPhone",
        "Sendt fra min iPhone",
        "Hämta Outlook för iOS<https://x.example/o>",
        "Hent Outlook til iOS<https://x.example/o>",
        "Lähetetty iPhonesta",
        "Wysłane z iPhone'a",
        "Odesláno z iPhonu",
        "Trimis de pe iPhone-ul meu",
        "iPhone'umdan gönderildi",
        "Отправлено с iPhone",
        "Στάλθηκε από το iPhone μου",
        "发自我的 iPhone",
        "iPhoneから送信",
        "나의 iPhone에서 보냄",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char text[1000];
        snprintf(text, sizeof(text), "Yes.\n\n%s\n", lines[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
        snprintf(text, sizeof(text), "Yes.\n%s\n\nAnn wrote:\n> Will you?\n\n", lines[i]);
        check(&(struct example){text, "Yes.\n"}, 1);
    }
    static const struct example examples[] = {
        {"a\n\nSent from my desk, as the telephone is gone.\n",
         "a\n\nSent from my desk, as the telephone is gone.\n"},
        {"It was\nsent from my iPhone\n", "It was\nsent from my iPhone\n"},
        {"Yes.\n\nSent from my iPhone\n\nPS: at ten\n", "Yes.\n\nSent from my iPhone\n\nPS: at ten\n"},
        {"Sent from my iPhone\n", "Sent from my iPhone\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(footers_of_mailing_lists_are_left_out)
{
    static const struct example examples[] = {
        {"Yes.\n\nBob\n\n_______________________________________________\nTalk mailing list\ntalk@x.example\n"
         "https://x.example/listinfo/talk\n",
         "Yes.\n\nBob\n"},
        {"> Come?\n\nYes.\n\n> When?\n\n_____\n\nTalk mailing list -- talk@x.example\n", "Yes.\n"},
        {"Yes.\n\n-----------------------------------------------------------------\n"
         "To unsubscribe, e-mail: talk-unsubscribe@x.example\n"
         "For additional commands, e-mail: talk-help@x.example\n",
         "Yes.\n"},
        {"Join our\n\nmailing list\n", "Join our\n\nmailing list\n"},
        {"_____\nNews\nof the mailing list\n", "_____\nNews\nof the mailing list\n"},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(a_forwarded_mail_and_the_text_above_it_are_kept)
{
    static const char *const separators[] = {
        "---------- Forwarded message ---------",
        "-------- Forwarded Message --------",
        "----- Forwarded message from Ann <ann@x.example> -----",
        "Begin forwarded message:",
        "-------- Weitergeleitete Nachricht --------",
        "Anfang der weitergeleiteten Nachricht:",
        "-------- Message transféré --------",
        "Début du message transféré :",
        "---------- Mensaje reenviado ---------",
        "-------- Messaggio inoltrato --------",
        "---------- Mensagem encaminhada ---------",
        "-------- Doorgestuurd bericht --------",
        "-------- Vidarebefordrat meddelande --------",
        "-------- Välitetty viesti --------",
        "-------- Przekazana wiadomość --------",
        "-------- Přeposlaná zpráva --------",
        "-------- Továbbított üzenet --------",
        "-------- Mesaj redirecționat --------",
        "-------- Пересылаемое сообщение --------",
        "-------- Προωθημένο μήνυμα --------",
        "-------- 转发邮件 --------",
        "-------- 転送されたメッセージ --------",
    };
    for (size_t i = 0; i < ARRAY_LEN(separators); i++) {
        char text[1000];
        char added[1000];
        snprintf(
            text, sizeof(text),
            "See below.\n\n%s\nFrom: Ann\nDate: Friday\nTo: Bob\n\nYes.\n-- \nAnn\n\nOn 20 Nov at 10:14 Bob "
            "wrote:\n> Come?\n\nSent from my iPhone\n",
            separators[i]);
        check(&(struct example){text, text}, 1);
        snprintf(text, sizeof(text), "See below.\n-- \nBob\n\n%s\nFrom: Ann\n\nYes.\n", separators[i]);
        snprintf(added, sizeof(added), "See below.\n\n%s\nFrom: Ann\n\nYes.\n", separators[i]);
        check(&(struct example){text, added}, 1);
        snprintf(text, sizeof(text), "Thanks.\n\n-----Original Message-----\nSee below.\n\n%s\nFrom: Ann\n",
                 separators[i]);
        check(&(struct example){text, "Thanks.\n"}, 1);
    }
}

TEST(text_that_is_all_history_is_kept_whole)
{
    static const struct example examples[] = {
        {"> only\n> a quote\n", "> only\n> a quote\n"},
        {"---------- Forwarded message ---------\nFrom: Ann\nDate: Friday\n\nHello\n",
         "---------- Forwarded message ---------\nFrom: Ann\nDate: Friday\n\nHello\n"},
        {"-- \nBob\n", "-- \nBob\n"},
        {"________\nFrom: Ann\nSent: Friday\nTo: Bob\n", "________\nFrom: Ann\nSent: Friday\nTo: Bob\n"},
        {"\n \n", "\n \n"},
        {"", ""},
    };
    check(examples, ARRAY_LEN(examples));
}

TEST(new_text_is_never_longer_than_the_text)
{
    static const char *const pieces[] = {"> ",
                                         "\n",
                                         "On ",
                                         "1",
                                         "10:14",
                                         "@",
                                         "wrote:",
                                         ":",
                                         "-- ",
                                         "--",
                                         "From:",
                                         "Sent:",
                                         "To:",
                                         "Subject:",
                                         "\r\n",
                                         "-----",
                                         "Original Message",
                                         "word ",
                                         "\xff",
                                         "\xc2",
                                         "：",
                                         "*",
                                         "\n\n",
                                         "___",
                                         "Sent from ",
                                         "mailing list",
                                         "Forwarded message",
                                         "2026",
                                         "Date:"};
    GRand *random = g_rand_new_with_seed(2);
    for (unsigned int round = 0; round < 2000; round++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100 * 1000);
        _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(100 * 1000);
        for (unsigned int i = 0; i < 60; i++)
            strbuf_append_str(&text, pieces[g_rand_int_range(random, 0, (int)ARRAY_LEN(pieces))]);
        strbuf_append(&text, "\0x", 2);
        assert_int_equal(0, new_text_append(&added, NEW_TEXT_OF_ANSWER, text.data, text.len));
        assert_in_range(added.len, 1, text.len + 1);
    }
    g_rand_free(random);
}

TEST(long_texts_are_read_in_linear_time)
{
    static const char *const lines[] = {"wrote:\n",
                                        "On 1:\n",
                                        "1\n",
                                        "From:\n",
                                        "--\n",
                                        "\n",
                                        "From: a\nTo: b\n",
                                        "On a b c d e f g 1 2 3 @ : :\n",
                                        "Sent from my telephone\n> a\n",
                                        "---\n\n\n\n",
                                        "Date:\n\n\n\n",
                                        "Ann wrote:\n\n\n\n",
                                        "20 10:14\n",
                                        "-----",
                                        ":",
                                        ">",
                                        "*"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64 * 1000 * 1000);
        _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(64 * 1000 * 1000);
        while (text.len < 300 * 1000)
            strbuf_append_str(&text, lines[i]);
        assert_int_equal(0, new_text_append(&added, NEW_TEXT_OF_ANSWER, text.data, text.len));
        assert_in_range(added.len, 1, text.len + 1);
    }
}

/* new_text_append() joins the lines of an attribution in a buffer of 400 bytes. Here the lines reach the end
 * of the buffer. */
TEST(a_beginning_of_an_attribution_without_its_end_is_new_text)
{
    char text[1000];
    for (int total = 360; total < 440; total++) {
        for (int first = 1; first < total; first += 7) {
            int len = snprintf(text, sizeof(text), "On %0*d\n%0*d\nx\n", first, 1, total - first, 1);
            _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(2000);
            assert_int_equal(0, new_text_append(&added, NEW_TEXT_OF_ANSWER, text, (size_t)len));
            assert_string_equal(text, strbuf_str(&added));
        }
    }
}

TEST(new_text_is_appended_up_to_the_bound)
{
    _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(20);
    strbuf_append_str(&added, "before\n");
    assert_int_equal(0, new_text_append(&added, NEW_TEXT_OF_ANSWER, "a\n> b", 5));
    assert_string_equal("before\na\n", strbuf_str(&added));
    assert_int_equal(-EMSGSIZE, new_text_append(&added, NEW_TEXT_OF_ANSWER, "a line of more bytes\n", 21));
}
