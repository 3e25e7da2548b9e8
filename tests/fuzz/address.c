/* SPDX-License-Identifier: MIT */
/*
 * Lists of addresses, as in headers. Each parsed address can be put into a header and a request. A list made
 * of the parsed addresses gives the same addresses again. A refused list leaves no addresses. A received
 * email keeps each address of a refused list whose name alone is bad.
 */
#include "mail/address.h"
#include "base/strbuf.h"
#include "fuzz/fuzz.h"

/* Blanks replace what a name cannot have. */
static bool has_name_with_blank(const struct address_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        if (list->items[i].name != NULL && strchr(list->items[i].name, ' ') != NULL)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct address_list list = {0};
    struct address_list again = {0};
    struct address_list first = {0};
    _cleanup_free_ char *text = fuzz_string(bytes, len);
    _cleanup_strbuf_ struct strbuf written = STRBUF_INIT(1 << 24);
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse(&list, text, NULL, &refused);
    FUZZ_CHECK(list.len <= ADDRESS_LIST_MAX && (error == 0 || list.len == 0));
    FUZZ_CHECK((error == -EBADMSG) == (refused != NULL));
    g_autoptr(GPtrArray) others = g_ptr_array_new_with_free_func(g_free);
    address_list_parse_each(&first, text, others);
    FUZZ_CHECK((error == -EBADMSG) <=
               (others->len > 0 || first.len == ADDRESS_LIST_MAX || has_name_with_blank(&first)));
    FUZZ_CHECK(error != 0 || (others->len == 0 && first.len == list.len));
    for (size_t i = 0; i < first.len; i++)
        FUZZ_CHECK(first.items[i].name == NULL || address_name_is_valid(first.items[i].name));
    for (size_t i = 0; i < list.len; i++) {
        FUZZ_CHECK(address_is_valid(list.items[i].address));
        FUZZ_CHECK(list.items[i].name == NULL || address_name_is_valid(list.items[i].name));
        strbuf_appendf(&written, "%s<%s>", i > 0 ? ", " : "", list.items[i].address);
    }
    if (error == 0 && list.len > 0) {
        FUZZ_CHECK(address_list_parse(&again, strbuf_str(&written), NULL, NULL) == 0 &&
                   again.len == list.len);
        for (size_t i = 0; i < list.len; i++)
            FUZZ_CHECK(strcmp(again.items[i].address, list.items[i].address) == 0);
    }
    address_list_release(&list);
    address_list_release(&again);
    address_list_release(&first);
    return 0;
}
