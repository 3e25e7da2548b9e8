/* SPDX-License-Identifier: MIT */
/*
 * Replays inputs without libFuzzer: `make check` gives each harness its inputs in tests/fuzz/corpus, so that
 * a fixed error cannot return. If an input breaks the harness, the program ends, and its last line, "# at",
 * names the input.
 */
#include <dirent.h>
#include <limits.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"

static void replay(const char *path)
{
    char chunk[16 * 1024];
    size_t got;
    _cleanup_strbuf_ struct strbuf input = STRBUF_INIT(1 << 24);
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL);
    while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0)
        strbuf_append(&input, chunk, got);
    fclose(file);
    FUZZ_CHECK(input.error == 0);
    /* Without a NUL at the end, sanitizers find reads past the end. */
    _cleanup_free_ uint8_t *bytes = malloc(input.len > 0 ? input.len : 1);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, strbuf_str(&input), input.len);
    LLVMFuzzerTestOneInput(bytes, input.len);
}

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash != NULL ? slash + 1 : argv[0];
    char folder[PATH_MAX];
    struct dirent **inputs = NULL;
    snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", name);
    int count = scandir(folder, &inputs, is_input, alphasort);
    FUZZ_CHECK(count > 0);
    printf("1..%d\n", count + 1);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    printf("ok 1 - %s: the empty input\n", name);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX + NAME_MAX + 2];
        snprintf(path, sizeof(path), "%s/%s", folder, inputs[i]->d_name);
        printf("# at %s\n", path);
        fflush(stdout);
        replay(path);
        printf("ok %d - %s: %s\n", i + 2, name, inputs[i]->d_name);
        free(inputs[i]);
    }
    free(inputs);
    return 0;
}
