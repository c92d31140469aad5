/* Routes: finds the handler for a method and a path. */
#ifndef WEFT_HTTP_ROUTE_H
#define WEFT_HTTP_ROUTE_H

#include <weft/http.h>

struct weft__http_route {
    struct weft__http_route *next; /* longer paths first; of equal paths the later one first */
    weft_http_fn fn;
    void *arg;
    uint64_t body_bytes;
    enum weft_http_method method; /* if any_method is false */
    bool any_method, is_prefix;   /* below: matches all paths that begin with `path` */
    size_t path_len;
    /* Name of a method without an enum value; in the same allocation, as is the path. */
    const char *method_name;
    char path[];
};

struct weft__http_routes {
    struct weft__http_route *first;
};

int weft__http_route_add(struct weft__http_routes *routes, const char *method, const char *path,
                         weft_http_fn fn, void *arg, uint64_t body_bytes);
void weft__http_route_free(struct weft__http_routes *routes);

/* Returns NULL if no route matches; *other: there is a route for another method. */
const struct weft__http_route *weft__http_route_find(const struct weft__http_routes *routes,
                                                     enum weft_http_method method,
                                                     struct weft_http_text method_name,
                                                     const char *path, size_t len, bool *other);
/* Writes the methods of a path, such as "GET, HEAD, POST", truncated to size. */
void weft__http_route_allow(const struct weft__http_routes *routes, const char *path, size_t len,
                            char *out, size_t size);

#endif
