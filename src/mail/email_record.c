/* SPDX-License-Identifier: MIT */
/*
 * Reads one record, which may come from any server: nothing but being a JSON object is relied on. Each field
 * is checked and written in one pass, in the order received; then the text is put together with the fields
 * that go first in front. Behind that, the same text becomes a line of index.jsonl.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/date.h"
#include "mail/file_name.h"
#include "mail/json_reader.h"
#include "mail/json_writer.h"

enum {
    DATE_MAX_BYTES = 255,
    KEY_START = 5, /* comma, line break, two blanks, quote */
    KEY_REST = 3,  /* quote, colon, blank */
};

#define NO_TEXT SIZE_MAX

/* The fields that mean something to this program. Those that a record's file begins with come first, and in
 * its order. */
enum field_kind {
    FIELD_ID,
    FIELD_DATE,
    FIELD_FROM_ADDRESS,
    FIELD_TO_ADDRESSES,
    FIELD_SUBJECT,
    FIRST_FIELDS, /* so many are those */
    FIELD_INBOX_ID = FIRST_FIELDS,
    FIELD_STATUS,
    FIELD_MARK,
    FIELD_OTHER,
};

/* A field as it is written: a comma, a line break, key and value. */
struct field {
    uint32_t start; /* in reading.fields */
    uint32_t end;
    uint32_t key_len; /* as written */
    enum field_kind kind;
};

struct record_reading {
    struct json_reader json;
    struct json_writer writer; /* to `fields` */
    struct strbuf fields;
    struct strbuf texts; /* the record's: id, inbox, JSON, stem */
    struct field *table; /* room for EMAIL_RECORD_MAX_FIELDS */
    size_t count;
    const struct field *first[FIRST_FIELDS]; /* of these kinds; NULL: the record has none */
    size_t key_at;                           /* places in texts, or NO_TEXT */
    size_t inbox_id_at;
    bool is_refused;      /* by its status */
    bool is_marked_valid; /* by hand */
    struct file_name_slug slug;
};

/* ---------------------------------------------------------------- fields */

static const char *key_of(const struct record_reading *reading, const struct field *field)
{
    return reading->fields.data + field->start + KEY_START;
}

static enum field_kind kind_of(const char *key, size_t len)
{
    static const struct {
        const char *key;
        enum field_kind kind;
    } kinds[] = {
        {"id", FIELD_ID},
        {"date", FIELD_DATE},
        {"from_address", FIELD_FROM_ADDRESS},
        {"to_addresses", FIELD_TO_ADDRESSES},
        {"subject", FIELD_SUBJECT},
        {"inbox_id", FIELD_INBOX_ID},
        {"status", FIELD_STATUS},
        {"user_mark_status", FIELD_MARK},
    };
    for (size_t i = 0; i < ARRAY_LEN(kinds) && len > 0; i++)
        if (kinds[i].key[0] == key[0] && strlen(kinds[i].key) == len && memcmp(kinds[i].key, key, len) == 0)
            return kinds[i].kind;
    return FIELD_OTHER;
}

static bool is_key_twice(const struct record_reading *reading, const struct field *field)
{
    const char *key = key_of(reading, field);
    for (const struct field *other = reading->table; other < field; other++)
        if (other->key_len == field->key_len && memcmp(key_of(reading, other), key, field->key_len) == 0)
            return true;
    return false;
}

/* Services give strings as ids, or numbers. "", and what holds a NUL, is none. */
static int keep_id(struct record_reading *reading, const struct json_scalar *value, size_t *ret_at)
{
    bool is_id = value->kind == JSON_SCALAR_STRING || value->kind == JSON_SCALAR_INTEGER;
    if (!is_id || value->len == 0 || memchr(value->text, '\0', value->len) != NULL)
        return 0;
    *ret_at = reading->texts.len;
    strbuf_append(&reading->texts, value->text, value->len);
    return strbuf_append_char(&reading->texts, '\0');
}

static void note_date(const struct json_scalar *value, struct email_record *record)
{
    char date[DATE_MAX_BYTES + 1];
    if (value->kind != JSON_SCALAR_STRING || value->len > DATE_MAX_BYTES)
        return;
    memcpy(date, value->text, value->len);
    date[value->len] = '\0';
    record->has_date = date_parse(date, &record->date_ms) == 0;
}

static bool is_text(const struct json_scalar *value, const char *text)
{
    return value->len == strlen(text) && memcmp(value->text, text, value->len) == 0;
}

static int note_value(struct record_reading *reading, enum field_kind kind, const struct json_scalar *value,
                      struct email_record *record)
{
    switch (kind) {
    case FIELD_ID:
        return keep_id(reading, value, &reading->key_at);
    case FIELD_INBOX_ID:
        return keep_id(reading, value, &reading->inbox_id_at);
    case FIELD_STATUS:
        reading->is_refused = value->kind == JSON_SCALAR_STRING && !is_text(value, "valid");
        return 0;
    case FIELD_MARK:
        reading->is_marked_valid = value->kind == JSON_SCALAR_WORD && is_text(value, "true");
        return 0;
    case FIELD_DATE:
        note_date(value, record);
        return 0;
    case FIELD_SUBJECT:
        if (value->kind == JSON_SCALAR_STRING)
            file_name_make_slug(value->text, value->len, &reading->slug);
        return 0;
    default:
        return 0;
    }
}

static int read_key(struct record_reading *reading, struct field *field)
{
    struct json_scalar key;
    field->start = (uint32_t)reading->fields.len;
    int error = json_reader_take_key(&reading->json, &reading->writer, &key);
    if (error != 0)
        return error;
    field->kind = kind_of(key.text, key.len);
    field->key_len = (uint32_t)reading->fields.len - field->start - KEY_START - KEY_REST;
    return is_key_twice(reading, field) ? -EEXIST : 0;
}

static int read_field(struct record_reading *reading, struct email_record *record)
{
    struct json_scalar value;
    if (reading->count == EMAIL_RECORD_MAX_FIELDS)
        return -EMSGSIZE;
    struct field *field = &reading->table[reading->count];
    int error = read_key(reading, field);
    if (error == 0)
        error = json_reader_take_value(&reading->json, &reading->writer, &value);
    if (error != 0)
        return error;
    field->end = (uint32_t)reading->fields.len;
    if (field->kind < FIRST_FIELDS)
        reading->first[field->kind] = field;
    reading->count++;
    return note_value(reading, field->kind, &value, record);
}

static int read_fields(struct record_reading *reading, struct email_record *record)
{
    if (!json_reader_take(&reading->json, '{'))
        return -EBADMSG;
    if (json_reader_take(&reading->json, '}'))
        return 0;
    do {
        int error = read_field(reading, record);
        if (error != 0)
            return error;
    } while (json_reader_take(&reading->json, ','));
    return json_reader_take(&reading->json, '}') ? 0 : -EBADMSG;
}

/* ---------------------------------------------------------------- the text */

static void append_field(struct record_reading *reading, const struct field *field)
{
    strbuf_append(&reading->texts, reading->fields.data + field->start, field->end - field->start);
}

static const char before_name[] = "\"file\":\"";
static const char after_name[] = "\"}\n";

/* The length of the line of index.jsonl without the file name, for a record whose compact JSON is
 * `compact_len` bytes long. */
static size_t compact_line_len(size_t compact_len)
{
    size_t comma_len = compact_len > strlen("{}");
    return compact_len - strlen("}") + comma_len + strlen(before_name) + strlen(after_name);
}

/* *ret_at: where the text begins among the texts. Each field brought a comma, the first one's becomes the
 * bracket. */
static int write_json(struct record_reading *reading, struct email_record *record, size_t *ret_at)
{
    struct strbuf *texts = &reading->texts;
    bool is_empty = reading->count == 0;
    if (reading->fields.len + strlen("\n}\n") > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    *ret_at = texts->len;
    for (size_t kind = 0; kind < FIRST_FIELDS; kind++)
        if (reading->first[kind] != NULL)
            append_field(reading, reading->first[kind]);
    for (size_t i = 0; i < reading->count; i++)
        if (reading->table[i].kind >= FIRST_FIELDS)
            append_field(reading, &reading->table[i]);
    strbuf_append_str(texts, is_empty ? "{}\n" : "\n}\n");
    if (texts->error != 0)
        return texts->error;
    texts->data[*ret_at] = '{';
    record->json_len = texts->len - *ret_at;
    size_t line_breaks = is_empty ? 1 : 2; /* that are in no field's layout */
    record->line_len = compact_line_len(record->json_len - reading->writer.layout_bytes - line_breaks);
    return strbuf_append_char(texts, '\0');
}

/* The same record gives the same key whatever the order of its fields. What jansson does not take (numbers
 * that no machine holds, say) is told apart by its text. */
static int make_key(struct record_reading *reading, const char *text, size_t len, size_t json_at)
{
    struct strbuf *texts = &reading->texts;
    char digest[65];
    _cleanup_json_ json_t *object = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    _cleanup_free_ char *sorted = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    const char *content = sorted != NULL ? sorted : texts->data + json_at;
    hash_sha256(content, strlen(content), digest);
    reading->key_at = texts->len;
    strbuf_appendf(texts, "~%.16s", digest);
    return strbuf_append_char(texts, '\0');
}

static int write_texts(struct record_reading *reading, const char *text, size_t len,
                       struct email_record *record)
{
    struct strbuf *texts = &reading->texts;
    size_t json_at;
    int error = write_json(reading, record, &json_at);
    if (error == 0 && reading->key_at == NO_TEXT)
        error = make_key(reading, text, len, json_at);
    if (error != 0)
        return error;
    size_t stem_at = texts->len;
    strbuf_reserve(texts, FILE_NAME_MAX_BYTES); /* the key is read while the stem is written behind it */
    error = file_name_append_stem(texts, record->has_date, record->date_ms, &reading->slug,
                                  texts->data + reading->key_at);
    char *data = strbuf_take(texts, NULL);
    if (data == NULL)
        return error != 0 ? error : -ENOMEM;
    record->owned = data;
    record->json = data + json_at;
    record->key = data + reading->key_at;
    record->inbox_id = reading->inbox_id_at != NO_TEXT ? data + reading->inbox_id_at : NULL;
    record->stem = data + stem_at;
    return 0;
}

/* ---------------------------------------------------------------- the record */

static int read_record(struct record_reading *reading, const char *text, size_t len,
                       struct email_record *record)
{
    reading->json.depth = 1;                   /* the record's own bracket */
    strbuf_reserve(&reading->fields, 2 * len); /* enough for most layouts */
    strbuf_reserve(&reading->texts, 2 * len);
    int error = read_fields(reading, record);
    if (error == 0 && !json_reader_is_at_end(&reading->json))
        error = -EBADMSG;
    record->is_held = reading->is_refused && !reading->is_marked_valid;
    return error != 0 ? error : write_texts(reading, text, len, record);
}

int email_record_from_text(const char *text, size_t len, struct email_record *ret_record)
{
    struct field table[EMAIL_RECORD_MAX_FIELDS];
    struct email_record record = {.key = NULL};
    struct record_reading reading = {
        .writer = {.out = &reading.fields, .indent = 2, .depth = 1}, /* inside an object that has a field */
        .fields = STRBUF_INIT(2 * EMAIL_RECORD_MAX_BYTES),
        .texts = STRBUF_INIT(3 * EMAIL_RECORD_MAX_BYTES),
        .table = table,
        .key_at = NO_TEXT,
        .inbox_id_at = NO_TEXT,
    };
    if (len > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    json_reader_init(&reading.json, text, len);
    int error = read_record(&reading, text, len, &record);
    json_reader_release(&reading.json);
    strbuf_release(&reading.fields);
    strbuf_release(&reading.texts);
    if (error == 0)
        *ret_record = record;
    return error;
}

void email_record_release(struct email_record *record)
{
    free(record->owned);
    *record = (struct email_record){.key = NULL};
}

/* ---------------------------------------------------------------- as a line of index.jsonl */

/*
 * A record's text becomes compact by leaving out what its layout is made of: each line's break and
 * indentation, and the blank behind its key's colon. Nothing else looks like that, since line breaks in
 * strings are escaped.
 */

enum {
    BLOCK_BYTES = 64, /* looked through at once */
    PIECE_BYTES = 32, /* copied at once: most of what stands between two places where something is left out */
    BEHIND_BYTES = 40, /* may be read behind a block */
    INDENT_BYTES = 16, /* that much indentation, and more, is not usual */
};

/* Bounded, since what is read may come from a file on the disk. */
struct line_writer {
    char *to;
    const char *limit;
};

static size_t bytes_left(const struct line_writer *line)
{
    return (size_t)(line->limit - line->to);
}

static void append_bytes(struct line_writer *line, const char *bytes, size_t len)
{
    if (len > bytes_left(line))
        len = bytes_left(line);
    memcpy(line->to, bytes, len);
    line->to += len;
}

/* ---- a usual text */

/* find_stops(): a bit for each byte of a block that ends a line or, as a quote with colon and blank behind
 * it, a key. find_text(): how many of INDENT_BYTES are blanks before anything else. */
#ifdef __SSE2__

static inline __m128i find_byte(const char *from, char c)
{
    return _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)from), _mm_set1_epi8(c));
}

static inline uint64_t find_stops(const char *block)
{
    uint64_t stops = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i += sizeof(__m128i)) {
        const char *at = block + i;
        __m128i keys =
            _mm_and_si128(find_byte(at, '"'), _mm_and_si128(find_byte(at + 1, ':'), find_byte(at + 2, ' ')));
        int bits = _mm_movemask_epi8(_mm_or_si128(keys, find_byte(at, '\n')));
        stops |= (uint64_t)(unsigned int)bits << i;
    }
    return stops;
}

static inline size_t find_text(const char *from)
{
    unsigned int blanks = (unsigned int)_mm_movemask_epi8(find_byte(from, ' '));
    return (size_t)__builtin_ctz(~blanks);
}

#else

static inline uint64_t find_stops(const char *block)
{
    uint64_t stops = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        if (block[i] == '\n' || (block[i] == '"' && block[i + 1] == ':' && block[i + 2] == ' '))
            stops |= UINT64_C(1) << i;
    return stops;
}

static inline size_t find_text(const char *from)
{
    size_t i = 0;
    while (i < INDENT_BYTES && from[i] == ' ')
        i++;
    return i;
}

#endif

/* Copies what stands between `piece` and a stop, with the colon of a key. Where the next piece begins; NULL:
 * here a closer look is needed, or there is not enough room for a quick copy. */
static inline const char *append_piece(struct line_writer *line, const char *piece, const char *stop)
{
    bool is_key = *stop == '"';
    /* Within a string, or the quote that begins one: ": so". A key that ends in a blank is not usual, either.
     */
    bool is_string = is_key && (stop[-1] == '\\' || stop[-1] == ' ');
    size_t len = (size_t)(stop - piece) + (is_key ? strlen("\":") : 0);
    size_t left_out = is_key ? strlen("\": ") : 1 + find_text(stop + 1);
    if (is_string || left_out > INDENT_BYTES || bytes_left(line) < len + PIECE_BYTES)
        return NULL;
    memcpy(line->to, piece, PIECE_BYTES);
    if (len > PIECE_BYTES)
        memcpy(line->to + PIECE_BYTES, piece + PIECE_BYTES, len - PIECE_BYTES);
    line->to += len;
    return stop + left_out;
}

/* Goes through blocks with BEHIND_BYTES readable bytes behind the last. As append_piece(). */
static const char *append_blocks(struct line_writer *line, const char *piece, const char *block,
                                 const char *end)
{
    for (; block < end; block += BLOCK_BYTES)
        for (uint64_t stops = find_stops(block); stops != 0; stops &= stops - 1) {
            piece = append_piece(line, piece, block + __builtin_ctzll(stops));
            if (piece == NULL)
                return NULL;
        }
    return piece;
}

/* The same for the end of the text, behind which nothing can be read: in a copy, which begins with what
 * stands before it. */
static bool append_last_blocks(struct line_writer *line, const char *piece, const char *block,
                               const char *end)
{
    char copy[1 + 3 * BLOCK_BYTES] = {0};
    size_t len = (size_t)(end - block);
    if (piece < block) {
        append_bytes(line, piece, (size_t)(block - piece));
        piece = block;
    }
    memcpy(copy, block - 1, 1 + len);
    const char *begin = copy + 1;
    const char *rest = append_blocks(line, begin + (piece - block), begin, begin + len);
    if (rest == NULL)
        return false;
    if (rest < begin + len)
        append_bytes(line, rest, (size_t)(begin + len - rest));
    return true;
}

/* False: this is not a usual text; then something was written all the same. */
static bool append_usual(struct line_writer *line, const char *json, size_t len)
{
    size_t whole = len > BEHIND_BYTES ? (len - BEHIND_BYTES) / BLOCK_BYTES * BLOCK_BYTES : 0;
    if (whole == 0 || *json != '{')
        return false;
    const char *piece = append_blocks(line, json, json, json + whole);
    return piece != NULL && append_last_blocks(line, piece, json + whole, json + len);
}

/* ---- any text */

/* Where the quote is that ends the string that the text begins with; `len` or beyond: nowhere. */
static size_t find_quote(const char *text, size_t len)
{
    const char *quote = memchr(text + 1, '"', len - 1);
    size_t i = quote != NULL ? (size_t)(quote - text) : len;
    if (quote == NULL || quote[-1] != '\\')
        return i;
    for (i = 1; i < len && text[i] != '"';)
        i += text[i] == '\\' ? 2 : 1;
    return i;
}

/* The length of the key that a line of a record begins with, quotes and all; 0: it begins with none. */
static size_t key_len(const char *text, size_t len)
{
    if (len == 0 || text[0] != '"')
        return 0;
    size_t i = find_quote(text, len);
    return i + 2 < len && text[i + 1] == ':' && text[i + 2] == ' ' ? i + 1 : 0;
}

static void append_compact(struct line_writer *line, const char *text, size_t len)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    size_t key = key_len(text, len);
    if (key > 0) {
        append_bytes(line, text, key + 1);
        text += key + 2;
        len -= key + 2;
    }
    append_bytes(line, text, len);
}

static void append_any(struct line_writer *line, const char *json, size_t len)
{
    const char *end = json + len;
    while (json < end) {
        const char *line_break = memchr(json, '\n', (size_t)(end - json));
        const char *line_end = line_break != NULL ? line_break : end;
        append_compact(line, json, (size_t)(line_end - json));
        json = line_end + (line_break != NULL);
    }
}

void email_record_write_line(const char *json, size_t json_len, const char *name, size_t name_len,
                             size_t line_len, char *ret_line)
{
    struct line_writer line = {.to = ret_line, .limit = ret_line + line_len + name_len};
    if (!append_usual(&line, json, json_len)) {
        line.to = ret_line;
        append_any(&line, json, json_len);
    }
    if (line.to > ret_line)
        line.to--; /* the closing bracket */
    if (line.to > ret_line + 1)
        append_bytes(&line, ",", 1);
    append_bytes(&line, before_name, strlen(before_name));
    append_bytes(&line, name, name_len);
    append_bytes(&line, after_name, strlen(after_name));
    memset(line.to, ' ', bytes_left(&line));
}
