/* A worker's I/O driver: its life cycle, and waking the tasks whose waits and operations the driver
 * returns as done: one CAS each, then all of them are queued together.
 */
#include <errno.h>
#include <sys/eventfd.h>

#include "sched/io_wake.h"
#include "sched/op_state.h"
#include "sched/pool.h"
#include "worker/worker.h"

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

/* --- waking ------------------------------------------------------------------------------ */

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
bool weft__io_waiter_fire(struct weft__io_waiter *waiter, uint64_t ticket,
                          struct weft__chain *ready)
{
    struct weft__task *task = weft__io_waiter_task(waiter);
    if (__builtin_expect(!weft__task_fire_waiting(task, ticket, WEFT__REASON_DONE), 0)) {
        return fire_any(task, ticket, ready);
    }
    weft__chain_push(ready, &task->link);
    return true;
}

static void fire_wakes(struct weft__io_done *done, struct weft__chain *ready)
{
    for (const struct weft__io_wake *wake = done->wakes; wake < done->next; wake++) {
        weft__io_waiter_fire(wake->waiter, wake->ticket, ready);
    }
    done->next = done->wakes;
}

static void consume_batch(struct weft__io_done *done)
{
    fire_wakes(done, &((struct weft__io_batch *)(void *)done)->ready);
}

void weft__io_batch_init(struct weft__io_batch *batch)
{
    weft__io_done_init(&batch->done, batch->wakes, WEFT__IO_BATCH, consume_batch);
    weft__chain_init(&batch->ready);
}

void weft__io_batch_place(struct weft__io_batch *batch)
{
    consume_batch(&batch->done);
    weft__place_all(&batch->ready, WEFT__FRONT);
}

/* For a loop, which has found fibers that wait for one of its descriptors. */
static void consume_foreign(struct weft__io_done *done)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    fire_wakes(done, &ready);
    weft__place_all(&ready, WEFT__FRONT);
}

static __attribute__((constructor)) void register_waker(void)
{
    weft__io_set_waker(consume_foreign);
}

/* --- a worker's events --------------------------------------------------------------------- */

#define WAKES 64 /* fired together; their tasks fit into the first-level cache */

/* The tasks that a driver's events have woken, in order. Their prefetch hints are stored for the
 * ring slots that they get if all of them go to the ring; otherwise a slot's hint belongs to
 * another task, which does no harm. */
struct events {
    struct weft__io_done done; /* first: done->consume converts */
    struct weft__chain ready;
    uint64_t tail, mask;
    const void **prefetch_hint;
    struct weft__io_wake wakes[WAKES];
};

static inline void note_hint(const struct events *events, const struct weft__fd *record)
{
    events->prefetch_hint[(events->tail + events->ready.count) & events->mask] = record;
}

static inline void fire_events(struct events *events)
{
    const struct weft__io_wake *wake = events->wakes, *end = events->done.next;
    for (; wake < end; wake++) {
        struct weft__task *task = weft__io_waiter_task(wake->waiter);
        if (__builtin_expect(!weft__task_fire_waiting(task, wake->ticket, WEFT__REASON_DONE), 0)) {
            fire_any(task, wake->ticket, &events->ready);
            continue;
        }
        if (wake->record) {
            note_hint(events, wake->record);
        }
        weft__chain_push(&events->ready, &task->link);
    }
    events->done.next = events->wakes;
}

/* More than an array of them. */
static void consume_events(struct weft__io_done *done)
{
    fire_events((struct events *)(void *)done);
}

static void free_abandoned(struct weft__op *op)
{
    struct weft__heap_op *heap_op = (struct weft__heap_op *)(void *)op;
    heap_op->free(heap_op);
}

static inline void fire_ops(struct events *events)
{
    struct weft__op *op = events->done.ops, *next;
    for (; op; op = next) {
        next = op->next; /* finish: op may be freed */
        if (__builtin_expect(weft__op_state_finish(&op->wait, &events->ready), 0)) {
            free_abandoned(op);
        }
    }
}

static void events_init(struct events *events, const struct weft__worker *w)
{
    weft__io_done_init(&events->done, events->wakes, WAKES, consume_events);
    weft__chain_init(&events->ready);
    events->tail = atomic_load_explicit(&w->ring.tail, memory_order_relaxed);
    events->mask = w->ring.mask;
    events->prefetch_hint = w->prefetch_hint;
}

/* Queues the tasks in the order of the events, after those that are ready already; published at
 * once, with one wake-up for all. */
static void place_ready(struct weft__worker *w, const struct weft__chain *ready)
{
    struct weft__link *link = ready->head, *next;
    /* seq_cst: submit step 1 of idle/idle.h; a single worker has no other worker to notify. */
    memory_order order = w->ring.no_thieves ? memory_order_relaxed : memory_order_seq_cst;
    uint64_t room = weft__ring_room_local(&w->ring), set = 0;
    for (; link; link = next) {
        struct weft__task *task = weft__task_of(link);
        next = link->next;
        if (__builtin_expect(task->home != w->pool || task->pin >= 0, 0)) {
            weft__place(task, WEFT__BACK);
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
    if (ready->count > 1 && !w->ring.no_thieves) {
        weft__idle_notify(&w->pool->idle); /* the first task is for this worker */
    }
}

static inline void wake_owners(struct weft__worker *w, struct events *events)
{
    fire_events(events);
    fire_ops(events);
    if (events->ready.head) {
        place_ready(w, &events->ready);
    }
}

void weft__worker_dispatch(struct weft__worker *w, struct weft__driver *driver)
{
    struct events events;
    events_init(&events, w);
    unsigned n = driver->kind->dispatch(driver, driver, &events.done);
    weft__driver_leave(driver);
    driver->last_poll = w->now;
    w->io_found = n > 0;
    weft__count(&w->io.waits, 1);
    weft__count(&w->io.events, n);
    wake_owners(w, &events);
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
    struct events events;
    if (!driver || !weft__driver_try_enter(driver)) {
        return;
    }
    events_init(&events, w);
    driver->kind->wait(driver, 0);
    driver->kind->dispatch(driver, weft__worker_peek_driver(w), &events.done);
    weft__driver_leave(driver);
    wake_owners(w, &events);
}

void weft__worker_evict_io(struct weft__worker *w)
{
    struct weft__driver *driver = weft__worker_peek_driver(w);
    struct events events;
    if (!driver || w->pool->worker_count == 1) {
        return;
    }
    events_init(&events, w);
    weft__fd_evict(driver, &events.done);
    wake_owners(w, &events);
    while (driver->kind->completes &&
           atomic_load_explicit(&w->io.linked, memory_order_relaxed) > 0) {
        driver->kind->wait(driver, INT64_MAX);
        weft__worker_dispatch(w, driver);
    }
}
