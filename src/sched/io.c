/* A worker's I/O driver: its life cycle, and where the fibers are queued whose operations have
 * completed.
 */
#include <errno.h>
#include <sys/eventfd.h>

#include "sched/pool.h"
#include "sched/worker.h"

struct weft__driver *weft__worker_open_driver(struct weft__worker *w, int *err)
{
    struct weft__driver *driver = NULL;
    const struct weft__driver_kind *kind;
    const char *why;
    *err = w->pool->compute ? -EOPNOTSUPP : weft__driver_choose(w->pool->wanted, &kind, &why);
    int wake_fd = atomic_load_explicit(&w->sleeper.parker.wake_fd, memory_order_relaxed);
    if (!*err && wake_fd < 0) {
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        *err = wake_fd < 0 ? -errno : 0;
        /* Release: for a late waker that finds the descriptor without the word. pairs:
         * weft__parker_wake */
        atomic_store_explicit(&w->sleeper.parker.wake_fd, wake_fd, memory_order_release);
    }
    if (!*err) {
        *err = weft__driver_open(&driver, kind, !w->has_thread, wake_fd, &w->io);
        if (*err && weft__driver_fall_back(w->pool->wanted, *err, &kind, &why)) {
            *err = weft__driver_open(&driver, kind, !w->has_thread, wake_fd, &w->io);
        }
    }
    if (!*err && w->index == 0 && w->pool->caller) {
        *err = weft__pool_host_watch(w->pool, driver);
    }
    if (*err) {
        weft__driver_close(driver);
        return NULL;
    }
    atomic_store_explicit(&w->pool->driver_why, why, memory_order_relaxed);
    atomic_store_explicit(&w->pool->driver, kind, memory_order_release); /* pairs: stats */
    /* Release: for threads that read it from outside. */
    atomic_store_explicit(&w->driver, driver, memory_order_release);
    w->io_mode = kind->completes ? WEFT__IO_MODE_COMPLETION : WEFT__IO_MODE_READINESS;
    return driver;
}

void weft__worker_close_driver(struct weft__worker *w)
{
    struct weft__driver *driver = weft__worker_peek_driver(w);
    if (driver) {
        w->io_mode = WEFT__IO_MODE_NONE;
        atomic_store_explicit(&w->driver, NULL, memory_order_release);
        weft__fd_detach_driver(driver);
        weft__driver_close(driver);
    }
}

void weft__worker_retire_io_count(struct weft__worker *w)
{
    int64_t linked = atomic_exchange_explicit(&w->io.linked, 0, memory_order_relaxed);
    if (linked) {
        weft__driver_count(NULL, (int)linked);
    }
}

/* The tasks that a driver's events have woken, in order. Their prefetch hints are stored for the
 * ring slots that they get if all of them go to the ring; otherwise a slot's hint belongs to
 * another task, which does no harm. */
struct ready {
    struct weft__chain chain; /* first: code without hints uses this as a plain chain */
    uint64_t tail, mask;
    const void **prefetch_hint;
};

static void ready_init(struct ready *ready, const struct weft__worker *w)
{
    weft__chain_init(&ready->chain);
    ready->tail = atomic_load_explicit(&w->ring.tail, memory_order_relaxed);
    ready->mask = w->ring.mask;
    ready->prefetch_hint = w->prefetch_hint;
}

static inline void note_hint(const struct ready *ready, const void *prefetch_hint)
{
    ready->prefetch_hint[(ready->tail + ready->chain.count) & ready->mask] = prefetch_hint;
}

/* The functions that io/fd.h requires: `who` is a task. */
static __attribute__((noinline)) bool fire_any(struct weft__task *task, uint64_t ticket,
                                               struct weft__chain *ready)
{
    enum weft__fire fire = weft__task_fire(task, ticket, WEFT__REASON_DONE);
    if (fire == WEFT__FIRE_ENQUEUE) {
        weft__chain_push(ready, &task->link);
    }
    return fire != WEFT__FIRE_LOST;
}

/* The usual case: the task has finished suspending, and nothing traces it. */
bool weft__io_fire(void *who, uint64_t ticket, const void *prefetch_hint, void *ready)
{
    struct weft__task *task = who;
    if (__builtin_expect(!weft__task_fire_waiting(task, ticket, WEFT__REASON_DONE), 0)) {
        return fire_any(task, ticket, ready);
    }
    if (prefetch_hint) {
        note_hint(ready, prefetch_hint);
    }
    weft__chain_push(ready, &task->link);
    return true;
}

/* Queues the tasks in the order of the events, after those that are ready already; published at
 * once, with one wake-up for all. */
static void place_events(struct weft__worker *w, const struct ready *ready)
{
    struct weft__link *link = ready->chain.head, *next;
    /* seq_cst: submit step 1 of sched/idle.h; a single worker has no other worker to notify. */
    memory_order order = w->ring.no_thieves ? memory_order_relaxed : memory_order_seq_cst;
    uint64_t room = weft__ring_room_local(&w->ring), set = 0;
    for (; link; link = next) {
        struct weft__task *task = weft__task_of(link);
        next = link->next;
        if (__builtin_expect(task->home != w->pool || task->pin >= 0, 0)) {
            weft__place(task);
        } else if (__builtin_expect(set < room, 1)) {
            weft__ring_set_local(&w->ring, set++, link);
        } else {
            weft__ring_publish_local(&w->ring, set, order);
            weft__place_local(w, task, order);
            room = weft__ring_room_local(&w->ring);
            set = 0;
        }
    }
    weft__ring_publish_local(&w->ring, set, order);
    if (ready->chain.count > 1 && !w->ring.no_thieves) {
        weft__idle_notify(&w->pool->idle); /* the first task is for this worker */
    }
}

void weft__worker_dispatch(struct weft__worker *w, struct weft__driver *driver)
{
    struct ready ready;
    ready_init(&ready, w);
    unsigned n = driver->kind->dispatch(driver, driver, &ready);
    weft__driver_leave(driver);
    driver->last_poll = w->now;
    w->io_found = n > 0;
    weft__count(&w->io.waits, 1);
    weft__count(&w->io.events, n);
    if (ready.chain.head) {
        place_events(w, &ready);
    }
}

void weft__worker_poll(struct weft__worker *w)
{
    struct weft__driver *driver = weft__worker_peek_driver(w);
    if (driver) {
        weft__driver_enter(driver);
        driver->kind->wait(driver, 0);
        weft__worker_dispatch(w, driver);
    }
}

void weft__worker_serve_io(struct weft__worker *w, const struct weft__worker *other)
{
    struct weft__driver *driver = atomic_load_explicit(&other->driver, memory_order_acquire);
    struct ready ready;
    if (!driver || !weft__driver_try_enter(driver)) {
        return;
    }
    ready_init(&ready, w);
    driver->kind->wait(driver, 0);
    driver->kind->dispatch(driver, weft__worker_peek_driver(w), &ready);
    weft__driver_leave(driver);
    if (ready.chain.head) {
        place_events(w, &ready);
    }
}

void weft__worker_evict_io(struct weft__worker *w)
{
    struct weft__driver *driver = weft__worker_peek_driver(w);
    struct ready ready;
    if (!driver || w->pool->worker_count == 1) {
        return;
    }
    ready_init(&ready, w);
    weft__fd_evict(driver, &ready);
    place_events(w, &ready);
    while (driver->kind->completes &&
           atomic_load_explicit(&w->io.linked, memory_order_relaxed) > 0) {
        driver->kind->wait(driver, INT64_MAX);
        weft__worker_dispatch(w, driver);
    }
}
