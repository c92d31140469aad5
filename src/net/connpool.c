#include <weft/connpool.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/sync.h>
#include <weft/timer.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "io/op.h"
#include "lock/lock.h"
#include "sched/timer.h"
#include "sync/source.h"
#include "wait/waiter.h"

#define DEFAULT_MAX 64u
#define IDLE_NS 60000000000
#define MAX_LIMIT 65536u

static const struct weft__wait_kind take_kind = {.name = "connection", .label = weft__source_label};

struct idle {
    int fd;
    int64_t since;
};

struct weft_connpool {
    struct weft__source source; /* the callers that wait for a connection; its lock guards the
                                   other fields */
    struct weft_connpool_opts opts;
    weft_timer timer;
    char *name;     /* owned copy */
    bool ticking;   /* the timer is set, or about to be */
    unsigned count; /* connections idle, in use, and being opened */
    unsigned idle_count;
    struct weft_connpool_stats stats;
    struct idle *idle; /* oldest first */
    char address[];
};

/* --- closing connections that are idle for too long ------------------------------------------- */

/* When the oldest idle connection is due; INT64_MAX: none is. */
static int64_t next_retirement_locked(const weft_connpool *pool)
{
    return pool->opts.idle_ns > 0 && pool->idle_count > pool->opts.min
               ? weft__clock_add(pool->idle[0].since, pool->opts.idle_ns)
               : INT64_MAX;
}

static int take_retired_locked(weft_connpool *pool, int64_t now)
{
    if (next_retirement_locked(pool) > now) {
        return -1;
    }
    int fd = pool->idle[0].fd;
    pool->idle_count--;
    pool->count--;
    pool->stats.retired++;
    memmove(pool->idle, pool->idle + 1, pool->idle_count * sizeof *pool->idle);
    return fd;
}

static void retire(weft_timer *timer, void *arg, uint64_t times)
{
    (void)times;
    weft_connpool *pool = arg;
    int64_t next;
    int fd;
    do {
        weft__source_lock(&pool->source);
        fd = take_retired_locked(pool, weft_now());
        next = next_retirement_locked(pool);
        pool->ticking = next != INT64_MAX;
        weft__source_unlock(&pool->source);
        if (fd >= 0) {
            weft_close(fd);
        }
    } while (fd >= 0);
    if (next != INT64_MAX) {
        weft_timer_set(timer, next);
    }
}

/* --- create and destroy ----------------------------------------------------------------------- */

int weft_connpool_create(weft_connpool **out, const char *address,
                         const struct weft_connpool_opts *options)
{
    struct weft_connpool_opts opts = {0};
    if (options) {
        opts = *options;
    }
    opts.max = opts.max ? opts.max : opts.min > DEFAULT_MAX ? opts.min : DEFAULT_MAX;
    opts.idle_ns = opts.idle_ns ? opts.idle_ns : IDLE_NS;
    opts.pool = opts.pool ? opts.pool : weft_pool_self();
    const char *problem = opts.min > opts.max    ? "min: must be at most max"
                          : opts.max > MAX_LIMIT ? "max: must be at most 65536"
                          : !address[0]          ? "address: must be given"
                          : !opts.pool && opts.idle_ns > 0
                              ? "pool: must be given outside of a fiber"
                              : NULL;
    if (problem) {
        return weft__refuse(-EINVAL, problem);
    }
    size_t len = strlen(address) + 1;
    weft_connpool *pool = weft__alloc(sizeof *pool + len);
    struct idle *idle = pool ? weft__alloc(opts.max * sizeof *idle) : NULL;
    char *name = idle ? weft__objname_copy(opts.name ? opts.name : address) : NULL;
    if (!name) {
        weft__free(idle);
        weft__free(pool);
        return -ENOMEM;
    }
    pool->opts = opts;
    pool->idle = idle;
    memcpy(pool->address, address, len);
    pool->name = name;
    weft__source_init(&pool->source, &(struct weft_sync_opts){.name = pool->name});
    if (opts.idle_ns > 0) {
        weft_timer_init(&pool->timer, retire, pool, &(struct weft_timer_opts){.pool = opts.pool});
    }
    *out = pool;
    return 0;
}

void weft_connpool_destroy(weft_connpool *pool)
{
    if (!pool) {
        return;
    }
    if (pool->opts.idle_ns > 0) {
        weft__timer_cancel_sync(&pool->timer);
        weft_timer_deinit(&pool->timer);
    }
    weft__source_deinit(&pool->source, "connection pool");
    WEFT__REQUIRE(pool->count == pool->idle_count,
                  "connection pool %s was destroyed with %u connections in use", pool->name,
                  pool->count - pool->idle_count);
    for (unsigned i = 0; i < pool->idle_count; i++) {
        weft_close(pool->idle[i].fd);
    }
    weft__free(pool->idle);
    weft__free(pool->name);
    weft__free(pool);
}

/* --- acquire ---------------------------------------------------------------------------------- */

/* Whether an idle connection has neither ended nor received unexpected data. */
static bool is_reusable(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static int take_idle_locked(weft_connpool *pool)
{
    return pool->idle_count ? pool->idle[--pool->idle_count].fd : -1;
}

/* One connection fewer: pass its place to a waiter, which opens a new one. */
static void release_place(weft_connpool *pool)
{
    struct weft__chain ready;
    struct weft__node *node;
    weft__chain_init(&ready);
    weft__source_lock(&pool->source);
    bool passed = false;
    while (!passed && (node = weft__waitlist_pop(&pool->source.waiters))) {
        passed = weft__node_fire(node, NULL, 0, &ready); /* the waiter opens a connection */
    }
    pool->count -= !passed;
    weft__source_unlock(&pool->source);
    weft__place_all(&ready, WEFT__FRONT);
}

static int open_connection(weft_connpool *pool, int64_t deadline)
{
    int fd = pool->opts.connect ? pool->opts.connect(pool->opts.arg, pool->address, deadline)
                                : weft_dial(pool->address, &pool->opts.dial, deadline);
    if (fd < 0) {
        release_place(pool);
    }
    return fd;
}

/* All connections are in use: wait for a connection, or a place for one, from the next release. */
static int wait_locked(weft_connpool *pool, int64_t deadline)
{
    struct weft__node node;
    pool->stats.waits++;
    weft__node_init(&node, NULL, 0);
    int err =
        weft__source_wait_locked(&pool->source, &pool->source.waiters, &node, deadline, &take_kind);
    if (err) {
        return err;
    }
    weft__source_lock(&pool->source);
    ++*(node.value ? &pool->stats.hits : &pool->stats.misses);
    weft__source_unlock(&pool->source);
    return node.value ? (int)(intptr_t)node.value - 1 : open_connection(pool, deadline);
}

int weft_connpool_acquire(weft_connpool *pool, int64_t deadline)
{
    WEFT__NONNULL(pool);
    for (;;) {
        weft__source_lock(&pool->source);
        int fd = take_idle_locked(pool);
        if (fd < 0 && pool->count == pool->opts.max) {
            if (pool->opts.refuse) {
                pool->stats.refusals++;
                weft__source_unlock(&pool->source);
                return -EAGAIN;
            }
            return wait_locked(pool, deadline);
        }
        pool->count += fd < 0;
        weft__source_unlock(&pool->source);
        bool good = fd < 0 || is_reusable(fd);
        weft__source_lock(&pool->source);
        uint64_t *counter = fd < 0 ? &pool->stats.misses
                            : good ? &pool->stats.hits
                                   : &pool->stats.stale;
        ++*counter;
        weft__source_unlock(&pool->source);
        if (fd < 0) {
            return open_connection(pool, deadline);
        }
        if (good) {
            return fd;
        }
        weft_close(fd);
        release_place(pool);
    }
}

/* --- release ---------------------------------------------------------------------------------- */

static void release_connection(weft_connpool *pool, int fd)
{
    struct weft__chain ready;
    struct weft__node *node;
    bool passed = false;
    weft__chain_init(&ready);
    weft__source_lock(&pool->source);
    while (!passed && (node = weft__waitlist_pop(&pool->source.waiters))) {
        passed = weft__node_fire(node, (void *)(intptr_t)(fd + 1), 0, &ready);
    }
    bool tick = false;
    if (!passed) {
        pool->idle[pool->idle_count++] = (struct idle){.fd = fd, .since = weft_now()};
        tick = !pool->ticking && next_retirement_locked(pool) != INT64_MAX;
        pool->ticking = pool->ticking || tick;
    }
    int64_t at = next_retirement_locked(pool);
    weft__source_unlock(&pool->source);
    weft__place_all(&ready, WEFT__FRONT);
    if (tick) {
        weft_timer_set(&pool->timer, at);
    }
}

void weft_connpool_release(weft_connpool *pool, int fd, bool reusable)
{
    WEFT__NONNULL(pool);
    if (reusable && is_reusable(fd)) {
        release_connection(pool, fd);
    } else {
        weft_close(fd);
        release_place(pool);
    }
}

/* --- opening connections in advance ----------------------------------------------------------- */

/* Reserve a place if the pool has fewer than the minimum. Connections being opened are counted
 * already, so concurrent fills together open no more than one fill would. */
static bool reserve_missing(weft_connpool *pool)
{
    weft__source_lock(&pool->source);
    bool missing = pool->count < pool->opts.min;
    pool->count += missing;
    weft__source_unlock(&pool->source);
    return missing;
}

int weft_connpool_fill(weft_connpool *pool, int64_t deadline)
{
    WEFT__NONNULL(pool);
    while (reserve_missing(pool)) {
        int fd = open_connection(pool, deadline);
        if (fd < 0) {
            return fd;
        }
        weft__source_lock(&pool->source);
        pool->stats.filled++;
        weft__source_unlock(&pool->source);
        release_connection(pool, fd);
    }
    return 0;
}

void weft_connpool_stats(weft_connpool *pool, struct weft_connpool_stats *out)
{
    WEFT__NONNULL(pool);
    weft__source_lock(&pool->source);
    *out = pool->stats;
    out->idle = pool->idle_count;
    out->used = pool->count - pool->idle_count;
    weft__source_unlock(&pool->source);
}
