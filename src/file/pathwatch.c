/* A pathwatch: an inotify descriptor, and the events that were read from it but not yet returned. A
 * caller that finds no event left reads the next ones, under a mutex that fibers wait for; the
 * memory is freed when the last caller has left. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <weft/blocking.h>
#include <weft/file.h>
#include <weft/sync.h>

#include "base/alloc.h"
#include "base/atomic.h"
#include "base/nonnull.h"
#include "io/fd.h"
#include "worker/worker.h"

#define BUFFER_BYTES 4096 /* at least one event with the longest name */

struct weft_pathwatch {
    weft_mutex mutex;
    int fd; /* immutable */
    _Atomic(uint32_t) refs;
    _Atomic(bool) closed;
    /* under the mutex */
    size_t at, end;
    _Alignas(struct inotify_event) char events[BUFFER_BYTES];
};

static void unref(weft_pathwatch *watch)
{
    if (atomic_fetch_sub_explicit(&watch->refs, 1, memory_order_acq_rel) == 1) { /* pairs: itself */
        weft_mutex_deinit(&watch->mutex);
        weft__free(watch);
    }
}

static void ref(weft_pathwatch *watch)
{
    atomic_fetch_add_explicit(&watch->refs, 1, memory_order_relaxed);
}

int weft_pathwatch_open(weft_pathwatch **out)
{
    weft_pathwatch *watch = weft__alloc(sizeof *watch);
    if (!watch) {
        return -ENOMEM;
    }
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    int err = watch->fd < 0 ? -errno : weft__fd_open(watch->fd, WEFT__FD_NONBLOCK);
    if (err) {
        if (watch->fd >= 0) {
            close(watch->fd);
        }
        weft__free(watch);
        return err;
    }
    weft_mutex_init(&watch->mutex, &(struct weft_sync_opts){.name = "watch"});
    atomic_init(&watch->refs, 1);
    *out = watch;
    return 0;
}

void weft_pathwatch_close(weft_pathwatch *watch)
{
    if (watch) {
        atomic_store_explicit(&watch->closed, true, memory_order_relaxed);
        weft_close(watch->fd);
        unref(watch);
    }
}

/* --- paths ------------------------------------------------------------------------------ */

struct addition {
    int fd;
    const char *path;
    uint32_t mask;
    int id;
};

static void *add(void *arg)
{
    struct addition *one = arg;
    int id = inotify_add_watch(one->fd, one->path, one->mask);
    one->id = id < 0 ? -errno : id;
    return NULL;
}

int weft_pathwatch_add(weft_pathwatch *watch, const char *path, uint32_t mask, int64_t deadline)
{
    WEFT__NONNULL(watch);
    struct addition one = {.fd = watch->fd, .path = path, .mask = mask};
    if (!weft__worker_self()) {
        add(&one);
        return one.id;
    }
    int err = weft_blocking_call(NULL, NULL, add, &one, deadline);
    return err ? err : one.id;
}

int weft_pathwatch_remove(weft_pathwatch *watch, int id)
{
    WEFT__NONNULL(watch);
    return inotify_rm_watch(watch->fd, id) == 0 ? 0 : -errno;
}

/* --- events ------------------------------------------------------------------------------ */

/* Under the mutex. 0: there is at least one event. */
static int fill(weft_pathwatch *watch, int64_t deadline)
{
    if (watch->at < watch->end) {
        return 0;
    }
    if (atomic_load_explicit(&watch->closed, memory_order_relaxed)) {
        return WEFT__CLOSED;
    }
    ssize_t n = weft_read(watch->fd, watch->events, sizeof watch->events, deadline);
    if (n > 0) {
        watch->at = 0;
        watch->end = (size_t)n;
    }
    return n > 0 ? 0 : (int)n;
}

/* Under the mutex. */
static int copy_event(weft_pathwatch *watch, struct weft_pathwatch_event *out)
{
    struct inotify_event event;
    memcpy(&event, watch->events + watch->at, sizeof event);
    const char *name = watch->events + watch->at + sizeof event;
    watch->at += sizeof event + event.len;
    if (event.mask & IN_Q_OVERFLOW) {
        return -EOVERFLOW;
    }
    out->id = event.wd;
    out->mask = event.mask;
    out->cookie = event.cookie;
    size_t len = event.len ? strnlen(name, event.len) : 0;
    len = len < sizeof out->name ? len : sizeof out->name - 1;
    memcpy(out->name, name, len);
    out->name[len] = 0;
    return 0;
}

int weft_pathwatch_next(weft_pathwatch *watch, struct weft_pathwatch_event *out, int64_t deadline)
{
    WEFT__NONNULL(watch);
    ref(watch);
    int err = weft_mutex_lock(&watch->mutex, deadline);
    if (!err) {
        err = fill(watch, deadline);
        err = err ? err : copy_event(watch, out);
        weft_mutex_unlock(&watch->mutex);
    }
    unref(watch);
    return err;
}
