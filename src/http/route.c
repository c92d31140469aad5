#include "http/route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static const char *const method_names[] = {
    [WEFT_HTTP_GET] = "GET",         [WEFT_HTTP_HEAD] = "HEAD",     [WEFT_HTTP_POST] = "POST",
    [WEFT_HTTP_PUT] = "PUT",         [WEFT_HTTP_DELETE] = "DELETE", [WEFT_HTTP_CONNECT] = "CONNECT",
    [WEFT_HTTP_OPTIONS] = "OPTIONS", [WEFT_HTTP_TRACE] = "TRACE",   [WEFT_HTTP_PATCH] = "PATCH",
};
enum { METHODS = sizeof method_names / sizeof *method_names };

static enum weft_http_method method_number(const char *name)
{
    for (int i = 1; i < METHODS; i++) {
        if (strcmp(name, method_names[i]) == 0) {
            return (enum weft_http_method)i;
        }
    }
    return WEFT_HTTP_OTHER;
}

int weft__http_route_add(struct weft__http_routes *routes, const char *method, const char *path,
                         weft_http_fn fn, void *arg, uint64_t body_bytes)
{
    size_t len = path ? strlen(path) : 0, name = method ? strlen(method) : 0;
    if (len == 0 || !fn || (*path != '/' && strcmp(path, "*") != 0)) {
        return -EINVAL;
    }
    struct weft__http_route *route = weft__alloc(sizeof *route + len + 1 + name + 1);
    if (!route) {
        return -ENOMEM;
    }
    route->fn = fn;
    route->arg = arg;
    route->body_bytes = body_bytes;
    route->any_method = !method;
    route->method = method ? method_number(method) : WEFT_HTTP_OTHER;
    route->is_prefix = path[len - 1] == '/';
    route->path_len = len;
    memcpy(route->path, path, len + 1);
    memcpy(route->path + len + 1, method ? method : "", name + 1);
    route->method_name = route->path + len + 1;
    struct weft__http_route **at = &routes->first;
    while (*at && (*at)->path_len > len) {
        at = &(*at)->next;
    }
    route->next = *at;
    *at = route;
    return 0;
}

void weft__http_route_free(struct weft__http_routes *routes)
{
    struct weft__http_route *route;
    while ((route = routes->first)) {
        routes->first = route->next;
        weft__free(route);
    }
}

static bool path_matches(const struct weft__http_route *route, const char *path, size_t len)
{
    return route->path_len <= len && (route->is_prefix || route->path_len == len) &&
           memcmp(route->path, path, route->path_len) == 0;
}

static bool method_matches(const struct weft__http_route *route, enum weft_http_method method,
                           struct weft_http_text name)
{
    if (route->any_method) {
        return true;
    }
    if (route->method == WEFT_HTTP_OTHER) {
        return method == WEFT_HTTP_OTHER && strlen(route->method_name) == name.len &&
               memcmp(route->method_name, name.data, name.len) == 0;
    }
    return route->method == method || (route->method == WEFT_HTTP_GET && method == WEFT_HTTP_HEAD);
}

const struct weft__http_route *weft__http_route_find(const struct weft__http_routes *routes,
                                                     enum weft_http_method method,
                                                     struct weft_http_text method_name,
                                                     const char *path, size_t len, bool *other)
{
    size_t best = 0; /* once a path has matched, only routes with the same path count */
    *other = false;
    for (const struct weft__http_route *route = routes->first; route; route = route->next) {
        if (route->path_len < best) {
            break;
        }
        if (path_matches(route, path, len)) {
            if (method_matches(route, method, method_name)) {
                return route;
            }
            best = route->path_len;
            *other = true;
        }
    }
    return NULL;
}

void weft__http_route_allow(const struct weft__http_routes *routes, const char *path, size_t len,
                            char *out, size_t size)
{
    size_t best = 0, used = 0;
    out[0] = '\0';
    for (const struct weft__http_route *route = routes->first; route; route = route->next) {
        if (route->path_len < best || !path_matches(route, path, len)) {
            continue;
        }
        best = route->path_len;
        int n = snprintf(out + used, size - used, "%s%s%s", used ? ", " : "", route->method_name,
                         route->method == WEFT_HTTP_GET ? ", HEAD" : "");
        if (n < 0 || (size_t)n >= size - used) {
            out[used] = '\0';
            return;
        }
        used += (size_t)n;
    }
}
