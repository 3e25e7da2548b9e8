/* SPDX-License-Identifier: MIT */
/*
 * libxml2 reports elements and text as it reads them (SAX); no tree is built, so memory does not grow with
 * their number. At each end tag it searches all open elements, so that a message of a few megabytes of start
 * tags, and of end tags that fit none, would keep it busy for hours: where too many are open it starts anew
 * behind the last one, as if all were closed.
 */
#include "mail/html_text.h"

#include <errno.h>
#include <glib.h>
#include <libxml/HTMLparser.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/html_input.h"
#include "mail/html_reading.h"

enum {
    OPEN_ELEMENTS_MAX = 250
};

struct reader {
    htmlParserCtxtPtr parser;
    struct html_reading reading;
    long resume_at; /* where the parser was stopped; -1: it was not */
};

/* What the parser has not asked for yet. */
struct source {
    const char *text;
    size_t len;
    const char *behind; /* comes after it, or NULL */
    size_t behind_len;
};

/* Comes before any HTML: to text outside of a body the parser would add paragraphs of its own. */
static const char prefix[] = "<html><body>";

static void stop(struct reader *reader)
{
    const xmlParserInput *input = reader->parser->input;
    reader->resume_at = (long)input->consumed + (input->cur - input->base);
    xmlStopParser(reader->parser);
}

static void on_begin(void *context, const xmlChar *name, const xmlChar **attributes)
{
    struct reader *reader = context;
    if (reader->resume_at >= 0)
        return;
    html_reading_begin(&reader->reading, (const char *)name, (const char *const *)attributes);
    if (reader->reading.layout.out->error != 0 || reader->reading.open >= OPEN_ELEMENTS_MAX)
        stop(reader);
}

static void on_end(void *context, const xmlChar *name)
{
    struct reader *reader = context;
    if (reader->resume_at < 0)
        html_reading_end(&reader->reading, (const char *)name);
}

static void on_text(void *context, const xmlChar *text, int len)
{
    struct reader *reader = context;
    if (reader->resume_at < 0)
        html_reading_text(&reader->reading, (const char *)text, (size_t)len);
}

/* The parser asks for more text; so it never copies all that is left when it begins anew. */
static int hand_over(void *context, char *buffer, int size)
{
    struct source *source = context;
    size_t len = source->len < (size_t)size ? source->len : (size_t)size;
    memcpy(buffer, source->text, len);
    source->text += len;
    source->len -= len;
    if (source->len == 0 && source->behind != NULL)
        *source = (struct source){TAKE_PTR(source->behind), source->behind_len, NULL, 0};
    return (int)len;
}

/* Reads up to the end, or up to where it has to begin anew: the number of bytes read. */
static size_t read_some(struct reader *reader, const char *html, size_t len)
{
    static const int options = HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                               HTML_PARSE_NONET | HTML_PARSE_NOIMPLIED | HTML_PARSE_IGNORE_ENC;
    struct source source = {prefix, strlen(prefix), html, len};
    reader->resume_at = -1;
    xmlFreeDoc(htmlCtxtReadIO(reader->parser, hand_over, NULL, &source, NULL, "UTF-8", options));
    if (reader->resume_at < (long)strlen(prefix))
        return len;
    size_t end = (size_t)reader->resume_at - strlen(prefix);
    return end < len ? end + strspn(html + end, "/>") : len;
}

static void read_all(struct reader *reader, const char *html, size_t len)
{
    while (len > 0 && reader->reading.layout.out->error == 0) {
        size_t count = read_some(reader, html, len);
        html += count;
        len -= count;
        html_reading_close(&reader->reading);
    }
}

static htmlParserCtxtPtr new_parser(struct reader *reader)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, xmlInitParser);
    htmlParserCtxtPtr parser = htmlNewParserCtxt();
    if (parser == NULL)
        return NULL;
    *parser->sax = (xmlSAXHandler){
        .startElement = on_begin,
        .endElement = on_end,
        .characters = on_text,
        .ignorableWhitespace = on_text,
        .cdataBlock = on_text,
    };
    parser->userData = reader;
    return parser;
}

int html_to_text(struct strbuf *out, const char *html, size_t len)
{
    struct reader reader = {0};
    text_layout_init(&reader.reading.layout, out);
    reader.parser = new_parser(&reader);
    if (reader.parser == NULL)
        return -ENOMEM;
    g_autofree char *copy = html_input_copy(html, len, &len);
    read_all(&reader, copy, len);
    if (text_layout_is_empty(&reader.reading.layout) && out->error == 0) {
        reader.reading.shows_all = true;
        read_all(&reader, copy, len);
    }
    if (text_layout_is_empty(&reader.reading.layout) && reader.reading.has_image)
        text_layout_append(&reader.reading.layout, "[image]", strlen("[image]"));
    htmlFreeParserCtxt(reader.parser);
    text_layout_finish(&reader.reading.layout);
    return out->error;
}
