/* The page that lists a directory: its names in order, directories with a trailing slash. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "httpfile/files.h"

enum { NAMES = 10000 };     /* more are not listed */
enum { YIELD_EVERY = 256 }; /* entries between two yields */

struct names {
    char *name[NAMES];
    int count;
    bool more;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns DT_REG, DT_DIR, or a type that is not listed. Most file systems report the type with the
 * name. */
static int entry_type(const struct weft_http_files *files, int dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN && (entry->d_type != DT_LNK || !files->opts.follow_symlinks)) {
        return entry->d_type;
    }
    int flags = files->opts.follow_symlinks ? 0 : AT_SYMLINK_NOFOLLOW;
    return fstatat(dir, entry->d_name, &st, flags) == 0 ? IFTODT(st.st_mode) : DT_UNKNOWN;
}

/* Returns the entry's name, with a trailing slash for a directory; NULL if it is not listed, or
 * there is no memory. */
static char *listed_name(const struct weft_http_files *files, int dir, const struct dirent *entry)
{
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        (!files->opts.dotfiles && name[0] == '.')) {
        return NULL;
    }
    int kind = entry_type(files, dir, entry);
    if (kind != DT_REG && kind != DT_DIR) {
        return NULL;
    }
    size_t len = strlen(name);
    char *to = weft__alloc_dirty(len + 2);
    if (to) {
        memcpy(to, name, len + 1);
        if (kind == DT_DIR) {
            memcpy(to + len, "/", 2);
        }
    }
    return to;
}

static void collect(struct names *names, const struct weft_http_files *files, DIR *dir)
{
    struct dirent *entry;
    for (unsigned seen = 1; (entry = readdir(dir)); seen++) {
        if (names->count == NAMES) {
            names->more = true;
            break;
        }
        char *name = listed_name(files, dirfd(dir), entry);
        if (name) {
            names->name[names->count++] = name;
        }
        if (seen % YIELD_EVERY == 0) {
            weft_yield();
        }
    }
    qsort(names->name, (size_t)names->count, sizeof *names->name, compare);
}

static int write_text(weft_http *req, const char *text)
{
    return weft_http_write(req, text, strlen(text), WEFT_FOREVER);
}

/* Escapes text for HTML, or for a link, in which ':' would start a scheme and '?' a query. */
static int write_escaped(weft_http *req, const char *text, bool link)
{
    char out[4096];
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at && n + 8 < sizeof out; at++) {
        bool plain = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
                     (*at >= 'A' && *at <= 'Z') || strchr("-._~/ ", *at);
        if (link ? plain && *at != ' ' : plain || *at >= 0x80) {
            out[n++] = (char)*at;
        } else if (link) {
            n += (size_t)snprintf(out + n, 4, "%%%02X", *at);
        } else {
            n += (size_t)snprintf(out + n, 8, "&#%d;", *at);
        }
    }
    return weft_http_write(req, out, n, WEFT_FOREVER);
}

static int write_entry(weft_http *req, const char *name)
{
    int err = write_text(req, "<li><a href=\"./");
    err = err ? err : write_escaped(req, name, true);
    err = err ? err : write_text(req, "\">");
    err = err ? err : write_escaped(req, name, false);
    return err ? err : write_text(req, "</a></li>\n");
}

static int write_page(weft_http *req, const struct names *names)
{
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_header(req, "Content-Type", "text/html; charset=utf-8");
    err = err ? err : write_text(req, "<!doctype html>\n<title>");
    err = err ? err : write_escaped(req, weft_http_path(req), false);
    err = err ? err : write_text(req, "</title>\n<h1>");
    err = err ? err : write_escaped(req, weft_http_path(req), false);
    err = err ? err : write_text(req, "</h1>\n<ul>\n");
    if (strcmp(weft_http_path(req), "/") != 0) {
        err = err ? err : write_text(req, "<li><a href=\"../\">../</a></li>\n");
    }
    for (int i = 0; i < names->count && !err; i++) {
        err = write_entry(req, names->name[i]);
    }
    err = err ? err : write_text(req, "</ul>\n");
    return !err && names->more ? write_text(req, "<p>... and more</p>\n") : err;
}

int weft__http_respond_listing(weft_http *req, const struct weft_http_files *files, int fd)
{
    struct names *names = weft__alloc(sizeof *names);
    DIR *dir = names ? fdopendir(fd) : NULL;
    int err = -ENOMEM;
    if (dir) {
        collect(names, files, dir);
        closedir(dir);
        err = write_page(req, names);
    } else {
        close(fd);
    }
    for (int i = 0; names && i < names->count; i++) {
        weft__free(names->name[i]);
    }
    weft__free(names);
    return err;
}
