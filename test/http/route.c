/* Which handler serves a method and a path, and which methods a path has. */
/* labels: valgrind */
#include "http/route.h"

#include <errno.h>

#include "check.h"

static struct weft__http_routes routes;

static int one(weft_http *http, void *arg)
{
    (void)http, (void)arg;
    return 0;
}

static void add(const char *method, const char *path)
{
    CHECK_EQ(weft__http_route_add(&routes, method, path, one, &routes, 77), 0);
}

/* "METHOD path" of the route that is found; "other" if only another method has one; "none". */
static const char *found(enum weft_http_method method, const char *name, const char *path)
{
    static char text[64];
    bool other;
    struct weft_http_text text_of = {.data = name, .len = strlen(name)};
    const struct weft__http_route *route =
        weft__http_route_find(&routes, method, text_of, path, strlen(path), &other);
    if (!route) {
        return other ? "other" : "none";
    }
    CHECK(route->fn == one && route->arg == &routes && route->body_bytes == 77);
    snprintf(text, sizeof text, "%s %s", route->any_method ? "any" : route->method_name,
             route->path);
    return text;
}

static const char *allow(const char *path, size_t size)
{
    static char text[64];
    memset(text, 'x', sizeof text);
    weft__http_route_allow(&routes, path, strlen(path), text, size);
    CHECK(strlen(text) < size);
    for (size_t i = size; i < sizeof text; i++) {
        CHECK_EQ(text[i], 'x');
    }
    return text;
}

TEST(bad_http_routes_are_einval)
{
    CHECK_EQ(weft__http_route_add(&routes, "GET", NULL, one, NULL, 0), -EINVAL);
    CHECK_EQ(weft__http_route_add(&routes, "GET", "", one, NULL, 0), -EINVAL);
    CHECK_EQ(weft__http_route_add(&routes, "GET", "a", one, NULL, 0), -EINVAL);
    CHECK_EQ(weft__http_route_add(&routes, "GET", "/a", NULL, NULL, 0), -EINVAL);
    CHECK(!routes.first);
}

TEST(route_match_prefers_longest_path_then_method)
{
    add("GET", "/");
    add("GET", "/a/");
    add(NULL, "/a/b");
    add("POST", "/a/b/c");
    add("PURGE", "/p");
    add("OPTIONS", "*");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/"), "GET /");
    CHECK_STR(found(WEFT_HTTP_HEAD, "HEAD", "/x"), "GET /");
    CHECK_STR(found(WEFT_HTTP_POST, "POST", "/x"), "other");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/a"), "GET /");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/a/"), "GET /a/");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/a/bb"), "GET /a/");
    CHECK_STR(found(WEFT_HTTP_DELETE, "DELETE", "/a/b"), "any /a/b");
    CHECK_STR(found(WEFT_HTTP_POST, "POST", "/a/b/c"), "POST /a/b/c");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/a/b/c"), "other"); /* not the methods of a shorter
                                                                * path */
    CHECK_STR(found(WEFT_HTTP_OTHER, "PURGE", "/p"), "PURGE /p");
    CHECK_STR(found(WEFT_HTTP_OTHER, "PURG", "/p"), "other");
    CHECK_STR(found(WEFT_HTTP_OTHER, "PURGF", "/p"), "other");
    CHECK_STR(found(WEFT_HTTP_OPTIONS, "OPTIONS", "*"), "OPTIONS *");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "b"), "none");
    weft__http_route_free(&routes);
    CHECK(!routes.first);
}

TEST(later_route_of_same_path_takes_precedence)
{
    add("GET", "/a");
    add(NULL, "/a");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/a"), "any /a");
    add("GET", "/a");
    CHECK_STR(found(WEFT_HTTP_GET, "GET", "/a"), "GET /a");
    weft__http_route_free(&routes);
}

TEST(allowed_methods_are_truncated_between_names)
{
    add("GET", "/");
    add("PUT", "/a");
    add("GET", "/a");
    add("POST", "/a");
    CHECK_STR(allow("/a", 64), "POST, GET, HEAD, PUT");
    CHECK_STR(allow("/a", sizeof "POST, GET, HEAD, PUT"), "POST, GET, HEAD, PUT");
    CHECK_STR(allow("/a", sizeof "POST, GET, HEAD, PUT" - 1), "POST, GET, HEAD");
    CHECK_STR(allow("/a", sizeof "POST, GET, HEAD" - 1), "POST");
    CHECK_STR(allow("/a", 1), "");
    CHECK_STR(allow("/b", 64), "GET, HEAD");
    CHECK_STR(allow("b", 64), "");
    weft__http_route_free(&routes);
}
