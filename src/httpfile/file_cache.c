/* The file cache: small files with their content and response header, larger files as open
 * descriptors.
 *
 * Each worker has its own cache, so there are no locks. A path maps to one set of a few slots; a
 * new entry takes the next slot of its set (round robin). For revalidate_ns an entry is served
 * without a check. Then the file is reopened, and if it is another file, or has changed, its
 * content is read again. A request that sends a file holds a reference, whatever happens to the
 * slot.
 *
 * Descriptors are for connections first: few files are kept open, and each time a file is checked,
 * the open files that no request has used since they expired are closed. So a removed file does not
 * keep its disk space for long either. If there is no descriptor for the check, the cached file is
 * served unchanged.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "httpfile/files.h"

enum { HEAD_MAX = 512, NAME_MAX_BYTES = 4096 };

static uint64_t hash_of(const char *path, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    while (len >= 8) {
        uint64_t word;
        memcpy(&word, path, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        path += 8;
        len -= 8;
    }
    for (; len; len--, path++) {
        h = (h ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    }
    return h ^ h >> 31;
}

void weft__http_file_unref(struct weft__http_file *file)
{
    if (file && --file->refs == 0) {
        if (file->fd >= 0) {
            close(file->fd);
        }
        weft__free(file);
    }
}

/* --- slots, and the list of files kept open --------------------------------------------------- */

static void open_list_add(struct weft__http_cache *cache, struct weft__http_file *file)
{
    file->older = cache->newest;
    file->newer = NULL;
    *(file->older ? &file->older->newer : &cache->oldest) = file;
    cache->newest = file;
    cache->open++;
}

static void open_list_remove(struct weft__http_cache *cache, struct weft__http_file *file)
{
    *(file->older ? &file->older->newer : &cache->oldest) = file->newer;
    *(file->newer ? &file->newer->older : &cache->newest) = file->older;
    cache->open--;
}

/* Replaces the slot's reference by one to `file` (NULL: none). Drops the old reference. */
static void slot_replace(struct weft__http_cache *cache, struct weft__http_file **slot,
                         struct weft__http_file *file)
{
    struct weft__http_file *old = *slot;
    if (old && old->fd >= 0) {
        open_list_remove(cache, old);
    }
    if (file && file->fd >= 0) {
        open_list_add(cache, file);
    }
    *slot = file;
    if (old != file) {
        weft__http_file_unref(old);
    }
}

static struct weft__http_file **slot_of(struct weft__http_cache *cache,
                                        const struct weft__http_file *file)
{
    struct weft__http_file **slot = cache->slots[file->hash % WEFT__HTTP_CACHE_SETS];
    while (*slot != file) {
        slot++;
    }
    return slot;
}

/* Closes the files whose validity has expired, and the oldest until `most` are left. */
static void close_expired(struct weft__http_cache *cache, unsigned most, int64_t now)
{
    while (cache->oldest && (cache->open > most || cache->oldest->valid_until <= now)) {
        slot_replace(cache, slot_of(cache, cache->oldest), NULL);
    }
}

void weft__http_cache_clear(struct weft__http_cache *cache)
{
    for (int i = 0; i < WEFT__HTTP_CACHE_SETS; i++) {
        for (int j = 0; j < WEFT__HTTP_CACHE_WAYS; j++) {
            slot_replace(cache, &cache->slots[i][j], NULL);
        }
    }
}

/* --- reading a file --------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Returns true if the whole content was read and the file did not change meanwhile. */
static bool read_content(int fd, char *to, const struct stat *st)
{
    size_t have = 0, size = (size_t)st->st_size;
    struct stat after;
    while (have < size) {
        ssize_t n = pread(fd, to + have, size - have, (off_t)have);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            return false;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    return fstat(fd, &after) == 0 && is_same(st, &after);
}

/* A file's modification time may be any number: clamps it to the nearest time that an HTTP date can
 * represent. */
void weft__http_file_date(const struct weft__http_file *file, char *out)
{
    int64_t time = file->st.st_mtim.tv_sec;
    time = time < 0 ? 0 : time > WEFT_HTTP_DATE_LAST ? WEFT_HTTP_DATE_LAST : time;
    weft_http_date_format(out, time);
    out[WEFT_HTTP_DATE_BYTES] = '\0';
}

static void make_head(struct weft__http_file *file, char *to)
{
    char date[WEFT_HTTP_DATE_BYTES + 1];
    weft__http_file_date(file, date);
    int n = snprintf(file->etag, sizeof file->etag, "\"%llx%08lx-%llx\"",
                     (unsigned long long)file->st.st_mtim.tv_sec,
                     (unsigned long)file->st.st_mtim.tv_nsec, (unsigned long long)file->st.st_size);
    file->etag_len = (size_t)n;
    n = snprintf(to, HEAD_MAX,
                 "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %llu\r\n"
                 "Last-Modified: %s\r\nETag: %s\r\nAccept-Ranges: bytes\r\n",
                 file->type, (unsigned long long)file->st.st_size, date, file->etag);
    file->head = to;
    file->head_len = (size_t)n;
}

/* Takes the descriptor. Returns NULL if there is no memory. */
static struct weft__http_file *file_create(int fd, const struct stat *st, const char *path,
                                           size_t len, const char *name)
{
    bool small = st->st_size <= WEFT__HTTP_CACHE_BYTES;
    size_t content = small ? (size_t)st->st_size : 0;
    struct weft__http_file *file = weft__alloc_dirty(sizeof *file + HEAD_MAX + len + 1 + content);
    if (!file) {
        close(fd);
        return NULL;
    }
    char *tail = (char *)(file + 1);
    char *bytes = tail + HEAD_MAX + len + 1;
    *file = (struct weft__http_file){
        .refs = 1, .fd = fd, .st = *st, .path_len = len, .type = weft__http_content_type(name)};
    make_head(file, tail);
    memcpy(tail + HEAD_MAX, path, len);
    tail[HEAD_MAX + len] = '\0';
    file->path = tail + HEAD_MAX;
    if (small && read_content(fd, bytes, st)) {
        file->content = bytes;
        file->fd = -1;
        close(fd);
    }
    return file;
}

/* --- looking up a path ------------------------------------------------------------------------ */

/* Writes the file name relative to the root; with `index`, the name of the directory's index file.
 * Returns false if it is too long. */
static bool file_name(const struct weft_http_files *files, const char *path, size_t len, char *out,
                      bool index)
{
    int n = snprintf(out, NAME_MAX_BYTES, "%.*s%s", (int)len, path, index ? files->opts.index : "");
    return n >= 0 && n < NAME_MAX_BYTES;
}

/* Opens the file that the path names. Returns a descriptor, or -EISDIR with *dir. */
static int open_path(struct weft_http_files *files, const char *path, size_t len, char *name,
                     struct stat *st, int *dir)
{
    const char *relative = path + files->prefix_len;
    size_t relative_len = len - files->prefix_len;
    bool is_dir = relative_len == 0 || relative[relative_len - 1] == '/';
    int fd;
    if (is_dir && *files->opts.index) {
        if (!file_name(files, relative, relative_len, name, true)) {
            return -ENOENT;
        }
        fd = weft__http_open(files, name, st);
        if (fd >= 0 && S_ISREG(st->st_mode)) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        } else if (fd != -ENOENT) {
            return fd;
        }
    }
    if (!file_name(files, relative, relative_len, name, false)) {
        return -ENOENT;
    }
    fd = weft__http_open(files, name, st);
    if (fd >= 0 && S_ISDIR(st->st_mode)) {
        *dir = fd;
        return -EISDIR;
    }
    if (fd >= 0 && is_dir) { /* "/file.txt/" */
        close(fd);
        return -ENOENT;
    }
    return fd;
}

static int load(struct weft_http_files *files, const char *path, size_t len,
                struct weft__http_file *old, struct weft__http_file **out, int *dir)
{
    char name[NAME_MAX_BYTES];
    struct stat st;
    int fd = open_path(files, path, len, name, &st, dir);
    if (fd < 0) {
        return fd;
    }
    if (old && is_same(&old->st, &st) && (old->content || old->fd >= 0)) {
        close(fd);
        *out = old;
        return 0;
    }
    *out = file_create(fd, &st, path, len, name);
    return *out ? 0 : -ENOMEM;
}

static struct weft__http_file **find(struct weft__http_cache *cache, uint64_t hash,
                                     const char *path, size_t len)
{
    struct weft__http_file **set = cache->slots[hash % WEFT__HTTP_CACHE_SETS];
    for (int i = 0; i < WEFT__HTTP_CACHE_WAYS; i++) {
        if (set[i] && set[i]->hash == hash && set[i]->path_len == len &&
            memcmp(set[i]->path, path, len) == 0) {
            return &set[i];
        }
    }
    return NULL;
}

static struct weft__http_file **choose_slot(struct weft__http_cache *cache, uint64_t hash)
{
    unsigned set = hash % WEFT__HTTP_CACHE_SETS;
    for (int i = 0; i < WEFT__HTTP_CACHE_WAYS; i++) {
        if (!cache->slots[set][i]) {
            return &cache->slots[set][i];
        }
    }
    return &cache->slots[set][cache->next_victim[set]++ % WEFT__HTTP_CACHE_WAYS];
}

static bool is_out_of_resources(int err)
{
    return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

int weft__http_cache_get(struct weft_http_files *files, int worker, const char *path, size_t len,
                         struct weft__http_file **out, int *dir)
{
    if (worker < 0 || (unsigned)worker >= files->workers || files->opts.revalidate_ns < 0) {
        return load(files, path, len, NULL, out, dir);
    }
    struct weft__http_cache *cache = &files->caches[worker];
    uint64_t hash = hash_of(path, len);
    int64_t now = weft_now_cached();
    struct weft__http_file **slot = find(cache, hash, path, len), *file = NULL;
    struct weft__http_file *old = slot ? *slot : NULL;
    if (old) {
        old->refs++; /* the caller's reference, or held until there is a new file */
        if (now < old->valid_until) {
            *out = old;
            return 0;
        }
    }
    int err = load(files, path, len, old, &file, dir);
    if (is_out_of_resources(err) && cache->open) {
        close_expired(cache, 0, now);
        slot = find(cache, hash, path, len);
        err = load(files, path, len, old, &file, dir);
    }
    if (is_out_of_resources(err) && old) { /* a stale file is better than none */
        *out = old;
        return 0;
    }
    if (err) {
        if (slot) {
            slot_replace(cache, slot, NULL);
        }
        weft__http_file_unref(old);
        return err;
    }
    file->hash = hash;
    file->valid_until = weft__clock_add(now, files->opts.revalidate_ns);
    if (file != old || !slot) {
        file->refs++; /* the slot's reference */
    }
    slot_replace(cache, slot ? slot : choose_slot(cache, hash), file);
    if (file != old) {
        weft__http_file_unref(old);
    }
    close_expired(cache, files->open_max, now);
    *out = file;
    return 0;
}
