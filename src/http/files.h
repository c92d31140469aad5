/* A directory that is served, and each worker's files at hand. */
#ifndef WEFT_HTTP_FILES_H
#define WEFT_HTTP_FILES_H

#include <stdalign.h>
#include <sys/stat.h>

#include <weft/http.h>
#include <weft/http_value.h>

#include "base/atomic.h"

enum {
    WEFT__HTTP_CACHE_SETS = 256, /* of each worker */
    WEFT__HTTP_CACHE_WAYS = 4,
    WEFT__HTTP_CACHE_BYTES = 16384, /* larger files are kept open instead */
    WEFT__HTTP_CACHE_OPEN = 128,    /* so many of them, if there are descriptors enough */
    WEFT__HTTP_ETAG = 48,
};

/* A file as it was when it was last looked at; the worker's. Freed when nobody has it. */
struct weft__http_file {
    unsigned refs;
    int fd;              /* -1: all of it is in `content` */
    int64_t fresh_until; /* of weft_now_cached */
    uint64_t hash;
    struct stat st;
    const char *path; /* as asked for; these lie behind the struct */
    const char *head; /* of a 200, for weft__http_answer_made */
    const char *content;
    size_t path_len, head_len;
    const char *type;
    char etag[WEFT__HTTP_ETAG];
    size_t etag_len;
    struct weft__http_file *older, *newer; /* of those that are kept open */
};

struct weft__http_cache {
    alignas(64) struct weft__http_file *slots[WEFT__HTTP_CACHE_SETS][WEFT__HTTP_CACHE_WAYS];
    unsigned turn[WEFT__HTTP_CACHE_SETS];
    struct weft__http_file *oldest,
        *newest; /* those that are kept open, by when they were looked at */
    unsigned open;
};

struct weft_http_files {
    struct weft_http_files_opts opts; /* with its defaults; texts are copies */
    int dir;
    bool openat2;
    size_t prefix_len;
    _Atomic(weft_pool *) pool; /* whose workers have the caches; NULL: nobody's yet */
    unsigned workers;
    unsigned open_most; /* files that a worker keeps open */
    struct weft__http_cache *caches;
    char boundary[24]; /* between parts of several ranges */
};

/* open.c: a name below the directory, without a leading slash; "" is the directory. A descriptor,
 * or -ENOENT for all that is not to be shown, or -EMFILE and the like. */
int weft__http_open(const struct weft_http_files *files, const char *name, struct stat *st);
bool weft__http_open_has_openat2(int dir);

/* cache.c: the file for a path, with a reference; of a worker's cache, or (worker -1) of none.
 * -EISDIR: a directory; *dir, unless NULL, is a descriptor of it. Else as open. */
int weft__http_cache_get(struct weft_http_files *files, int worker, const char *path, size_t len,
                         struct weft__http_file **out, int *dir);
void weft__http_file_unref(struct weft__http_file *file);
/* For Last-Modified, with a zero behind it: WEFT_HTTP_DATE_BYTES + 1. */
void weft__http_file_date(const struct weft__http_file *file, char *out);
void weft__http_cache_clear(struct weft__http_cache *cache);

/* listing.c: the page for a directory; takes the descriptor. */
int weft__http_list(weft_http *x, const struct weft_http_files *files, int fd);

#endif
