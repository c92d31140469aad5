/* Watches on a pool: each is one detached fiber, which awaits readiness and invokes the callback.
 *
 * An active watch is in the table, under its lock. Remove and cancel unlink it, so that the next
 * add of the same event succeeds at once, and store the reason in `end`. Only the fiber frees the
 * watch.
 *
 *     remove, cancel                           fiber
 *     1. lock; unlink; end = ...               1. lock; end set? leave; waiting = true; unlock
 *     2. waiting? interrupt the fiber; unlock  2. wait for readiness
 *                                              3. lock; waiting = false; unlock
 *                                              4. end set? clear the interrupt
 *
 * The interrupt is sent under the lock. So it arrives only while the fiber is between steps 1 and
 * 3, and at step 4 it was either delivered by the wait or can be cleared: no wait inside the
 * callback sees it.
 *
 * The number of a closed descriptor may be reused before the fiber of its watch has noticed the
 * close. The generation distinguishes the two descriptors: add replaces a watch of an older
 * generation.
 */
#include <weft/loop.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "io/fd.h"
#include "lock/lock.h"
#include "sched/pool.h"
#include "task/fork.h"

#define BUCKETS 256u

struct watch {
    weft_pool *pool;
    int fd, event;
    uint32_t generation;
    weft_pool_watch_fn fn;
    void *arg;
    /* Under the lock. */
    struct watch *next, **at; /* in the bucket; at == NULL: unlinked */
    weft_fiber fiber;
    bool waiting, calling; /* what the fiber is doing */
    int end;               /* 0: active; REMOVED; or a negative errno to report to the callback */
};

#define REMOVED INT_MIN

static struct weft__lock lock;
static struct watch *buckets[BUCKETS];

static struct watch **bucket_of(int fd)
{
    return &buckets[(unsigned)fd % BUCKETS];
}

static void link_locked(struct watch *watch)
{
    struct watch **first = bucket_of(watch->fd);
    watch->next = *first;
    watch->at = first;
    if (watch->next) {
        watch->next->at = &watch->next;
    }
    *first = watch;
}

static void unlink_locked(struct watch *watch)
{
    if (watch->at) {
        *watch->at = watch->next;
        if (watch->next) {
            watch->next->at = watch->at;
        }
        watch->at = NULL;
    }
}

static struct watch *find_locked(const weft_pool *pool, int fd, int event)
{
    struct watch *watch = *bucket_of(fd);
    while (watch && (watch->pool != pool || watch->fd != fd || watch->event != event)) {
        watch = watch->next;
    }
    return watch;
}

static bool is_closed(const struct watch *watch)
{
    return weft__fd_generation(weft__fd_record(watch->fd)) != watch->generation;
}

/* --- forks ---------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
    weft__lock(&lock);
}

static void fork_parent(void)
{
    weft__unlock(&lock);
}

/* The fibers of the watches exist only in the parent. */
static void fork_child(void)
{
    atomic_store_explicit(&lock.word, 0, memory_order_relaxed);
    memset(buckets, 0, sizeof buckets);
}

static void watch_forks(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

/* --- the fiber ------------------------------------------------------------------------------ */

/* Returns the reason for ending the watch; 0: the fiber is about to wait. */
static int begin_wait(struct watch *watch)
{
    weft__lock(&lock);
    int end = watch->end;
    watch->waiting = end == 0;
    watch->calling = false;
    weft__unlock(&lock);
    return end;
}

/* Returns an event, or the reason for ending the watch. */
static int finish_wait(struct watch *watch, int found)
{
    weft__lock(&lock);
    watch->waiting = false;
    int end = watch->end;
    watch->calling = !end && found >= 0;
    if (!end && found < 0 && found != -EINTR) {
        unlink_locked(watch);
    }
    weft__unlock(&lock);
    if (end) {
        weft_fiber_clear_interrupt();
        return end;
    }
    return found;
}

/* If the descriptor is closed before or during the wait, the wait may be on its successor. */
static int await_ready(const struct watch *watch)
{
    int found = -EBADFD;
    if (!is_closed(watch)) {
        found = weft_fd_wait(watch->fd, watch->event, WEFT_FOREVER);
    }
    bool ended = found == -ECANCELED || found == -EINTR;
    return !ended && is_closed(watch) ? -EBADFD : found;
}

/* An interrupt that this file did not send comes from the program; a watch ignores it. */
static int await_event(struct watch *watch)
{
    int found;
    do {
        int end = begin_wait(watch);
        if (end) {
            return end;
        }
        found = finish_wait(watch, await_ready(watch));
    } while (found == -EINTR);
    return found;
}

static void *run_watch(void *arg)
{
    struct watch *watch = arg;
    weft__lock(&lock);
    watch->fiber = weft_self();
    weft__unlock(&lock);
    int found;
    while ((found = await_event(watch)) >= 0) {
        watch->fn(watch->fd, found, watch->arg);
        weft_yield(); /* the descriptor may be ready all the time */
    }
    if (found != REMOVED) {
        watch->fn(watch->fd, found, watch->arg);
    }
    weft__free(watch);
    return NULL;
}

/* --- public functions ------------------------------------------------------------------------ */

static int check_fd(int fd, uint32_t *generation)
{
    int err = 0;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    *generation = weft__fd_generation(record);
    return weft__fd_is(record, WEFT__FD_FILE) ? -EPERM : 0;
}

static int add_locked(struct watch *watch)
{
    struct watch *old = find_locked(watch->pool, watch->fd, watch->event);
    if (old && !is_closed(old)) {
        return -EEXIST;
    }
    if (old) {
        unlink_locked(old); /* its fiber is about to report the close */
    }
    link_locked(watch);
    return 0;
}

int weft_pool_watch_add(weft_pool *pool, int fd, int event, weft_pool_watch_fn fn, void *arg)
{
    WEFT__NONNULL(pool);
    WEFT__NONNULL(fn);
    static struct weft__fork_once once;
    uint32_t generation = 0;
    weft__fork_once(&once, watch_forks);
    if (event != WEFT_READABLE && event != WEFT_WRITABLE) {
        return -EINVAL;
    }
    int err = pool->compute ? -EOPNOTSUPP : check_fd(fd, &generation);
    if (err) {
        return err;
    }
    struct watch *watch = weft__alloc(sizeof *watch);
    if (!watch) {
        return -ENOMEM;
    }
    *watch = (struct watch){
        .pool = pool, .fd = fd, .event = event, .generation = generation, .fn = fn, .arg = arg};
    weft__lock(&lock);
    err = add_locked(watch);
    weft__unlock(&lock);
    if (!err) {
        err = weft_pool_spawn(pool, NULL, run_watch, watch,
                              &(struct weft_fiber_opts){.name = "watch", .detached = true});
        if (err) {
            weft__lock(&lock);
            unlink_locked(watch);
            weft__unlock(&lock);
        }
    }
    if (err) {
        weft__free(watch);
    }
    return err;
}

static void end_locked(struct watch *watch, int end)
{
    unlink_locked(watch);
    watch->end = end;
    if (watch->waiting) {
        (void)weft_fiber_interrupt(
            watch->fiber); /* the fiber exists: it must still take the lock */
    }
}

int weft_pool_watch_remove(weft_pool *pool, int fd, int event)
{
    WEFT__NONNULL(pool);
    int err = -ENOENT;
    weft__lock(&lock);
    struct watch *watch = find_locked(pool, fd, event);
    if (watch) {
        err = watch->calling ? -EINPROGRESS : 0;
        end_locked(watch, REMOVED);
    }
    weft__unlock(&lock);
    return err;
}

int weft_pool_watch_cancel(weft_pool *pool, int fd, int event)
{
    WEFT__NONNULL(pool);
    weft__lock(&lock);
    struct watch *watch = find_locked(pool, fd, event);
    if (watch) {
        end_locked(watch, -ECANCELED);
    }
    weft__unlock(&lock);
    return watch ? 0 : -ENOENT;
}

static int cancel_in_locked(struct watch *watch, const weft_pool *pool, int fd)
{
    int n = 0;
    for (struct watch *next; watch; watch = next) {
        next = watch->next;
        if (watch->pool == pool && (fd < 0 || watch->fd == fd)) {
            end_locked(watch, -ECANCELED);
            n++;
        }
    }
    return n;
}

int weft_pool_watch_cancel_all(weft_pool *pool, int fd)
{
    WEFT__NONNULL(pool);
    int n = 0;
    weft__lock(&lock);
    if (fd >= 0) {
        n = cancel_in_locked(*bucket_of(fd), pool, fd);
    }
    for (unsigned i = 0; fd < 0 && i < BUCKETS; i++) {
        n += cancel_in_locked(buckets[i], pool, fd);
    }
    weft__unlock(&lock);
    return n ? n : -ENOENT;
}
