/* labels: valgrind */
#include <weft/http_parse.h>

#include <errno.h>

#include "base/rand.h"
#include "check.h"

/* Each path is in memory of exactly its size; the result is compared, also when decoded in
 * place. */
static void path_is(const char *path, const char *expected)
{
    size_t len = strlen(path), room = len + 2;
    char *in = malloc(room), *out = malloc(room);
    CHECK(in && out);
    memcpy(in, path, len);
    ssize_t n = weft_uri_path_normalize(out, room, in, len);
    if (!expected) {
        if (n != -EINVAL) {
            check_fail(__FILE__, __LINE__, "%s was taken: %zd", path, n);
        }
    } else {
        CHECK_EQ(n, strlen(expected));
        CHECK_STR(out, expected);
        CHECK_EQ(weft_uri_path_normalize(in, room, in, len), n);
        CHECK_STR(in, expected);
    }
    free(in);
    free(out);
}

TEST(uri_paths_are_decoded_and_normalised)
{
    path_is("", "/");
    path_is("/", "/");
    path_is("/a", "/a");
    path_is("/a/", "/a/");
    path_is("/a/b.c", "/a/b.c");
    path_is("//a///b//", "/a/b/");
    path_is("/.", "/");
    path_is("/./a/./b/.", "/a/b/");
    path_is("/a/..", "/");
    path_is("/a/b/..", "/a/");
    path_is("/a/b/../", "/a/");
    path_is("/a/b/../c", "/a/c");
    path_is("/a/b/../../c", "/c");
    path_is("/a//../b", "/b");
    path_is("/...", "/...");
    path_is("/..a/b..", "/..a/b..");
    path_is("/.a", "/.a");
    path_is("/%41%2d%7E", "/A-~");
    path_is("/a%20b", "/a b");
    path_is("/%c3%A9", "/\xc3\xa9");
    path_is("/a/%2e%2E/b", "/b");
    path_is("/a/%2e/b", "/a/b");
    path_is("/a/.%2e", "/");
    path_is("/+", "/+");
    path_is("/a?b", "/a?b");
}

TEST(uri_path_is_decoded_once)
{
    path_is("/%2541", "/%41");
    path_is("/%252e%252e/x", "/%2e%2e/x");
    path_is("/%252f", "/%2f");
    path_is("/%2500", "/%00");
}

TEST(uri_paths_that_escape_or_hide_bytes_are_refused)
{
    static const char *const bad[] = {
        "a",
        "*",
        "http://a/",
        "../a",
        "/..",
        "/../",
        "/../a",
        "/a/../..",
        "/a/../../b",
        "/./..",
        "//..",
        "/%2e%2e",
        "/.%2e/",
        "/%2e./a",
        "/a/b/../../../c",
        "/a/%2e%2e/%2e%2e/b",
        "/\\",
        "/a\\..\\b",
        "/%5c",
        "/..%5c..",
        "/%00",
        "/a%00.html",
        "/%2f",
        "/a%2Fb",
        "/..%2f",
        "/%",
        "/%4",
        "/%4g",
        "/%g4",
        "/%%41",
        "/%-1",
        "/% 1",
        "/a%0a",
        "/a%0D%0a",
        "/%01",
        "/%1f",
        "/%7f",
        "/%u0041",
        "\\",
        "/a\tb",
        "/\x7f",
        "/%2",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        path_is(bad[i], NULL);
    }
}

TEST(uri_path_without_buffer_space_returns_enametoolong)
{
    char out[10];
    CHECK_EQ(weft_uri_path_normalize(out, 4, "/ab", 3), 3);
    CHECK_EQ(weft_uri_path_normalize(out, 3, "/ab", 3), -ENAMETOOLONG);
    CHECK_EQ(weft_uri_path_normalize(out, 4, "/a/", 3), 3);
    CHECK_EQ(weft_uri_path_normalize(out, 3, "/a/", 3), -ENAMETOOLONG);
    CHECK_EQ(weft_uri_path_normalize(out, 2, "/", 1), 1);
    CHECK_EQ(weft_uri_path_normalize(out, 1, "/", 1), -ENAMETOOLONG);
    CHECK_EQ(weft_uri_path_normalize(out, 0, "", 0), -ENAMETOOLONG);
}

/* For any input, the output stays below its root, and normalizes to itself. */
TEST(accepted_uri_path_stays_below_root_and_is_idempotent)
{
    static const char *const parts[] = {"/",   "//",   ".",   "..",   "a",  "%2e", "bc",
                                        "%41", "%2E.", "...", "/../", "%5", "\\"};
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed());
    for (long i = 0; i < check_scale(50000); i++) {
        char in[200] = "/", out[200], again[200];
        for (uint32_t n = weft__rand_next(&rng) % 12; n; n--) {
            strcat(in, parts[weft__rand_next(&rng) % (sizeof parts / sizeof *parts)]);
        }
        ssize_t n = weft_uri_path_normalize(out, sizeof out, in, strlen(in));
        if (n < 0) {
            CHECK_EQ(n, -EINVAL);
            continue;
        }
        CHECK_EQ(n, strlen(out));
        CHECK(out[0] == '/' && !strstr(out, "//") && !strstr(out, "/./") && !strstr(out, "/../"));
        CHECK(n < 2 || strcmp(out + n - 2, "/.") != 0);
        CHECK(n < 3 || strcmp(out + n - 3, "/..") != 0);
        if (!strchr(out, '%')) {
            CHECK_EQ(weft_uri_path_normalize(again, sizeof again, out, (size_t)n), n);
            CHECK_STR(again, out);
        }
    }
}

TEST(uri_escapes_are_decoded)
{
    char out[20];
    CHECK_EQ(weft_uri_decode(out, sizeof out, "a%20b+c%2Fd%00", 14), 8);
    CHECK(memcmp(out, "a b+c/d\0", 8) == 0);
    CHECK_EQ(weft_uri_decode(out, sizeof out, "", 0), 0);
    CHECK_EQ(weft_uri_decode(out, 1, "%41", 3), 1);
    CHECK_EQ(weft_uri_decode(out, 0, "%41", 3), -ENAMETOOLONG);
    CHECK_EQ(weft_uri_decode(out, 2, "%41bc", 5), -ENAMETOOLONG);
    CHECK_EQ(weft_uri_decode(out, sizeof out, "%4", 2), -EINVAL);
    CHECK_EQ(weft_uri_decode(out, sizeof out, "%", 1), -EINVAL);
    CHECK_EQ(weft_uri_decode(out, sizeof out, "%zz", 3), -EINVAL);
    char text[] = "%41%42";
    CHECK_EQ(weft_uri_decode(text, 6, text, 6), 2);
    CHECK(memcmp(text, "AB", 2) == 0);
}
