/* A served directory and the file cache of each worker. */
#ifndef WEFT_HTTPFILE_FILES_H
#define WEFT_HTTPFILE_FILES_H

#include <stdalign.h>
#include <sys/stat.h>

#include <weft/http.h>
#include <weft/http_parse.h>

#include "base/atomic.h"

enum {
    WEFT__HTTP_CACHE_SETS = 256, /* per worker */
    WEFT__HTTP_CACHE_WAYS = 4,
    WEFT__HTTP_CACHE_BYTES = 16384, /* larger files are kept open instead of in memory */
    WEFT__HTTP_CACHE_OPEN = 128,    /* at most this many of them, if there are enough descriptors */
    WEFT__HTTP_ETAG = 48,
};

/* A file as of its last check; owned by one worker. Freed with the last reference. */
struct weft__http_file {
    unsigned refs;
    int fd;              /* -1: the whole file is in `content` */
    int64_t valid_until; /* in the time of weft_now_cached */
    uint64_t hash;
    struct stat st;
    const char *path; /* as requested; this and the next two point behind the struct */
    const char *head; /* header of a 200 response, for weft__http_respond_prebuilt */
    const char *content;
    size_t path_len, head_len;
    const char *type;
    char etag[WEFT__HTTP_ETAG];
    size_t etag_len;
    struct weft__http_file *older, *newer; /* list of the files kept open */
};

struct weft__http_cache {
    alignas(64) struct weft__http_file *slots[WEFT__HTTP_CACHE_SETS][WEFT__HTTP_CACHE_WAYS];
    unsigned next_victim[WEFT__HTTP_CACHE_SETS];
    struct weft__http_file *oldest,
        *newest; /* the files kept open, in the order of their last check */
    unsigned open;
};

struct weft_http_files {
    struct weft_http_files_opts opts; /* with defaults filled in; strings are copies */
    int dir;
    bool openat2;
    size_t prefix_len;
    _Atomic(weft_pool *) pool; /* the pool whose workers own the caches; NULL: none yet */
    unsigned workers;
    unsigned open_max; /* files that a worker keeps open */
    struct weft__http_cache *caches;
    char boundary[24]; /* multipart boundary between ranges */
};

/* open_beneath.c: opens a name below the directory, without a leading slash; "" is the directory
 * itself. Returns a descriptor; -ENOENT for everything that must not be served; -EMFILE and similar
 * errors. */
int weft__http_open(const struct weft_http_files *files, const char *name, struct stat *st);
bool weft__http_has_openat2(int dir);

/* file_cache.c: returns in *out the file for a path, with a reference; from the cache of a worker,
 * or (worker -1) from none. Returns 0; -EISDIR for a directory, with its descriptor in *dir;
 * otherwise as weft__http_open. */
int weft__http_cache_get(struct weft_http_files *files, int worker, const char *path, size_t len,
                         struct weft__http_file **out, int *dir);
void weft__http_file_unref(struct weft__http_file *file);
/* Formats Last-Modified, zero-terminated: WEFT_HTTP_DATE_BYTES + 1 bytes. */
void weft__http_file_date(const struct weft__http_file *file, char *out);
void weft__http_cache_clear(struct weft__http_cache *cache);

/* directory_listing.c: responds with the page for a directory; takes the descriptor. */
int weft__http_respond_listing(weft_http *req, const struct weft_http_files *files, int fd);

/* The content type for a file name, by its extension; a static string. */
const char *weft__http_content_type(const char *name);

#endif
