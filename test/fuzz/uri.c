/* An accepted path stays below its root, contains no forbidden byte, and normalizes to itself; it
 * is never longer than its input. */
#include <weft/http_parse.h>

#include <errno.h>

#include "fuzz/target.h"

static void check_path(const char *path, size_t len)
{
    fuzz_require(path[0] == '/' && strlen(path) == len);
    fuzz_require(!strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../"));
    fuzz_require(!strchr(path, '\\') && !strchr(path, '\n'));
    fuzz_require(len < 2 || strcmp(path + len - 2, "/.") != 0);
    fuzz_require(len < 3 || strcmp(path + len - 3, "/..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    char *out = malloc(len + 2), *again = malloc(len + 2);
    fuzz_require(out && again);
    ssize_t n = weft_uri_path_normalize(out, len + 2, text, len);
    if (n < 0) {
        fuzz_require(n == -EINVAL);
    } else {
        check_path(out, (size_t)n);
        if (!strchr(out, '%')) {
            fuzz_require(weft_uri_path_normalize(again, len + 2, out, (size_t)n) == n);
            fuzz_require(strcmp(out, again) == 0);
        }
        /* One byte less than it needs. */
        char *small = malloc((size_t)n ? (size_t)n : 1);
        fuzz_require(small &&
                     weft_uri_path_normalize(small, (size_t)n, text, len) == -ENAMETOOLONG);
        free(small);
        memcpy(again, text, len);
        fuzz_require(weft_uri_path_normalize(again, len + 2, again, len) == n &&
                     strcmp(out, again) == 0);
    }
    n = weft_uri_decode(out, len, text, len);
    fuzz_require(n == -EINVAL || (n >= 0 && (size_t)n <= len));
    free(out);
    free(again);
    return 0;
}
