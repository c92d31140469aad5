#include "io/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/driver.h"
#include "io/edge.h"
#include "io/op_queue.h"
#include "io/statx.h"

_Atomic(struct weft__fd *) weft__fd_pages[WEFT__FD_PAGES];

struct weft__fd *weft__fd_page_make(unsigned index)
{
    struct weft__fd *page = weft__map(WEFT__FD_PAGE * sizeof *page);
    if (!page) {
        return NULL;
    }
    for (unsigned i = 0; i < WEFT__FD_PAGE; i++) {
        page[i].number = (int)(index * WEFT__FD_PAGE + i);
        for (int side = 0; side < 2; side++) {
            atomic_init(&page[i].side[side].edges, 1);
        }
    }
    struct weft__fd *none = NULL;
    if (!atomic_compare_exchange_strong_explicit(&weft__fd_pages[index], &none, page,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        weft__unmap(page, WEFT__FD_PAGE * sizeof *page);
        page = none;
    }
    return page;
}

struct weft__fd *weft__fd_find(int fd)
{
    unsigned index = (unsigned)fd / WEFT__FD_PAGE;
    bool none = fd < 0 || index >= WEFT__FD_PAGES ||
                !atomic_load_explicit(&weft__fd_pages[index], memory_order_acquire);
    return none ? NULL : weft__fd_record(fd);
}

/* --- registering and forgetting descriptors ------------------------------------------- */

static void next_generation_locked(struct weft__fd *record)
{
    atomic_store_explicit(&record->generation, weft__fd_generation(record) + 1,
                          memory_order_relaxed);
}

static void set_driver_locked(struct weft__fd *record, struct weft__driver *driver)
{
    record->driver = driver;
    if (driver && !driver->kind->armed) {
        atomic_fetch_or_explicit(&record->flags, WEFT__FD_WATCHED, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&record->flags, (uint16_t)~WEFT__FD_WATCHED,
                                  memory_order_relaxed);
    }
}

/* Unregister the descriptor: end its driver's interest. Returns the descriptor that was reopened
 * for our use, which the caller closes; -1: none. */
static int unregister_locked(struct weft__fd *record)
{
    if (record->driver) {
        record->driver->kind->forget(record->driver, record);
        set_driver_locked(record, NULL);
    }
    next_generation_locked(record);
    return weft__fd_is(record, WEFT__FD_SHARED) ? weft__fd_take_reopened(record) : -1;
}

static void close_reopened(int reopened)
{
    if (reopened >= 0) {
        close(reopened);
    }
}

static void open_locked(struct weft__fd *record, unsigned flags)
{
    for (int i = 0; i < 2; i++) {
        struct weft__fd_side *side = &record->side[i];
        uint32_t edges = atomic_load_explicit(&side->edges, memory_order_relaxed) + 1;
        atomic_store_explicit(&side->edges, edges, memory_order_relaxed);
        atomic_store_explicit(&side->empty_at, edges - 1, memory_order_relaxed);
    }
    /* pairs: weft__fd_is */
    atomic_store_explicit(&record->flags, (uint16_t)(flags | WEFT__FD_REGISTERED),
                          memory_order_release);
}

int weft__fd_open(int fd, unsigned flags)
{
    struct weft__fd *record = weft__fd_record(fd);
    if (!record) {
        return -ENOMEM;
    }
    weft__latch_lock(&record->lock);
    int reopened = unregister_locked(record); /* if it was closed without our knowledge */
    open_locked(record, flags);
    weft__latch_unlock(&record->lock);
    close_reopened(reopened);
    return 0;
}

void weft__fd_reset_unknown(int fd)
{
    struct weft__fd *record = weft__fd_record(fd);
    if (!record) {
        return; /* no memory: the next use of the descriptor reports it */
    }
    weft__latch_lock(&record->lock);
    int reopened = unregister_locked(record);
    atomic_store_explicit(&record->flags, 0, memory_order_release);
    weft__latch_unlock(&record->lock);
    close_reopened(reopened);
}

static int unblock(int fd)
{
    int mode = fcntl(fd, F_GETFL);
    return mode < 0 || (!(mode & O_NONBLOCK) && fcntl(fd, F_SETFL, mode | O_NONBLOCK) != 0) ? -errno
                                                                                            : 0;
}

int weft__fd_unblock(struct weft__fd *record)
{
    if (weft__fd_is(record, WEFT__FD_NONBLOCK)) {
        return 0;
    }
    weft__latch_lock(&record->lock);
    int err = weft__fd_is(record, WEFT__FD_REGISTERED) ? unblock(record->number) : -EBADF;
    if (!err) {
        atomic_fetch_or_explicit(&record->flags, WEFT__FD_NONBLOCK, memory_order_relaxed);
    }
    weft__latch_unlock(&record->lock);
    return err;
}

int weft__fd_inspect(int fd, unsigned *flags)
{
    struct statx st;
    int protocol, mode;
    socklen_t len = sizeof protocol;
    *flags = 0;
    if (weft__statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) != 0) {
        return -errno;
    }
    if (S_ISSOCK(st.stx_mode)) {
        *flags = WEFT__FD_SOCKET;
        if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
            protocol == IPPROTO_TCP) { /* as weft__fd_socket_flags */
            *flags |= WEFT__FD_STREAM;
        }
        return 0;
    }
    if (S_ISREG(st.stx_mode) || S_ISBLK(st.stx_mode) || S_ISDIR(st.stx_mode)) {
        *flags = WEFT__FD_FILE;
        return 0;
    }
    mode = fcntl(fd, F_GETFL);
    if (mode < 0) {
        return -errno;
    }
    *flags = (S_ISFIFO(st.stx_mode) ? WEFT__FD_STREAM : 0) |
             (mode & O_NONBLOCK ? WEFT__FD_NONBLOCK : WEFT__FD_SHARED);
    return 0;
}

/* -EAGAIN: the descriptor that was inspected has been closed; its number may be reused. */
static int register_locked(struct weft__fd *record, unsigned flags, uint32_t generation)
{
    if (generation != weft__fd_generation(record)) {
        return -EAGAIN;
    }
    next_generation_locked(record);
    open_locked(record, flags);
    return 0;
}

/* Take the lock while no close(2) is in progress. A caller that has just got the number from the
 * kernel need not wait for that. */
static void lock_after_close(struct weft__fd *record)
{
    weft__latch_lock(&record->lock);
    while (__builtin_expect(weft__fd_is(record, WEFT__FD_IN_CLOSE), 0)) {
        weft__latch_unlock(&record->lock);
        for (unsigned times = 0; weft__fd_is(record, WEFT__FD_IN_CLOSE); times++) {
            weft__latch_backoff(times);
        }
        weft__latch_lock(&record->lock);
    }
}

struct weft__fd *weft__fd_use_unknown(int fd, int *err)
{
    struct weft__fd *record = weft__fd_record(fd);
    unsigned flags = 0;
    if (!record) { /* no memory, or a number beyond the table, which is usually no valid
                      descriptor at all */
        *err = fd < 0 ? -EBADF : weft__fd_inspect(fd, &flags);
        *err = *err ? *err : -ENOMEM;
        return NULL;
    }
    do {
        /* pairs: finish_close_locked */
        uint32_t generation = atomic_load_explicit(&record->generation, memory_order_acquire);
        *err = weft__fd_is(record, WEFT__FD_CLOSE_PENDING) ? -EBADF : weft__fd_inspect(fd, &flags);
        if (*err) {
            return NULL;
        }
        lock_after_close(record);
        if (weft__fd_is(record, WEFT__FD_CLOSE_PENDING)) {
            *err = -EBADF;
        } else if (!weft__fd_is(record, WEFT__FD_REGISTERED)) {
            *err = register_locked(record, flags, generation);
        }
        weft__latch_unlock(&record->lock);
    } while (*err == -EAGAIN);
    return *err ? NULL : record;
}

/* --- waits ---------------------------------------------------------------------------- */

void weft__fd_push_locked(struct weft__fd *record, struct weft__op *op)
{
    struct weft__fd_list *list = &record->list[op->side];
    op->next = NULL;
    op->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = op;
    list->last = op;
    op->linked = record->listed = true;
}

void weft__fd_remove_locked(struct weft__fd *record, struct weft__op *op)
{
    struct weft__fd_list *list = &record->list[op->side];
    *(op->prev ? &op->prev->next : &list->first) = op->next;
    *(op->next ? &op->next->prev : &list->last) = op->prev;
    op->linked = false;
    record->listed = list->first || record->list[1 - op->side].first;
}

struct weft__op *weft__fd_next_locked(const struct weft__fd *record, enum weft__side side,
                                      const struct weft__op *op)
{
    struct weft__op *first = weft__fd_slot_op(&record->slot[side]);
    return !op && first ? first : !op || op == first ? record->list[side].first : op->next;
}

/* Whether a driver or a thread still has an operation on this number. */
static bool has_ops_locked(const struct weft__fd *record)
{
    return record->listed || weft__fd_slot_op(&record->slot[WEFT__SIDE_IN]) ||
           weft__fd_slot_op(&record->slot[WEFT__SIDE_OUT]);
}

bool weft__fd_invalidate(struct weft__fd *record)
{
    int reopened = -1;
    weft__latch_lock(&record->lock);
    bool file = weft__fd_is(record, WEFT__FD_FILE); /* else another caller did it first */
    bool named = file && has_ops_locked(record);
    if (file && !named) {
        reopened = unregister_locked(record);
        atomic_store_explicit(&record->flags, 0, memory_order_release);
    }
    weft__latch_unlock(&record->lock);
    close_reopened(reopened);
    return !named;
}

static int watch_locked(struct weft__fd *record, struct weft__driver *driver)
{
    /* A forgotten descriptor is about to be closed: no further event would be reported for it. The
     * waiter may have begun after that, and would not see the generation change. */
    int err = weft__fd_is(record, WEFT__FD_REGISTERED) ? driver->kind->watch(driver, record)
                                                       : WEFT__CLOSED;
    set_driver_locked(record, err ? NULL : driver);
    return err;
}

int weft__fd_claim(struct weft__fd *record, struct weft__driver *driver)
{
    weft__latch_lock(&record->lock);
    int err = record->driver ? 0 : watch_locked(record, driver);
    err = !err && record->driver != driver ? -EBUSY : err;
    weft__latch_unlock(&record->lock);
    return err;
}

/* Whether the caller may wait now. On success the record has a driver. */
static int begin_wait_locked(struct weft__fd *record, enum weft__side side, uint32_t generation,
                             uint32_t edges, struct weft__driver *driver)
{
    int err = 0;
    if (weft__fd_generation(record) != generation) {
        return -EAGAIN;
    }
    if (!record->driver) {
        err = watch_locked(record, driver);
    }
    return !err && atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) != edges
               ? -EAGAIN
               : err;
}

static void count_wait_locked(struct weft__fd *record, struct weft__driver *driver)
{
    weft__driver_count(driver, 1);
    if (record->driver->kind->armed) {
        record->driver->kind->armed(record->driver);
    }
}

int weft__fd_link(struct weft__fd *record, struct weft__op *op, uint32_t generation, uint32_t edges,
                  struct weft__driver *driver)
{
    weft__latch_lock(&record->lock);
    int err = begin_wait_locked(record, (enum weft__side)op->side, generation, edges, driver);
    if (!err) {
        op->driver = record->driver;
        weft__fd_push_locked(record, op);
        count_wait_locked(record, driver);
    }
    weft__latch_unlock(&record->lock);
    return err;
}

int weft__fd_wait_slow_locked(struct weft__fd *record, enum weft__side side, uint32_t generation,
                              uint32_t edges, struct weft__driver *driver,
                              struct weft__io_waiter *waiter, uint64_t ticket)
{
    struct weft__fd_slot *at = &record->slot[side];
    int err = begin_wait_locked(record, side, generation, edges, driver);
    if (!err && weft__fd_slot_waiter(at)) {
        err = -EBUSY;
    }
    if (!err) {
        weft__fd_slot_set(at, waiter, ticket);
        count_wait_locked(record, driver);
    }
    return err;
}

void weft__fd_cancel_wait(struct weft__fd *record, enum weft__side side,
                          const struct weft__io_waiter *waiter, uint64_t ticket,
                          struct weft__driver *here)
{
    struct weft__fd_slot *at = &record->slot[side];
    weft__latch_lock(&record->lock);
    if (weft__fd_slot_waiter(at) == waiter && at->ticket == ticket) {
        weft__fd_slot_clear(at);
        weft__driver_count(here, -1);
    }
    weft__latch_unlock(&record->lock);
}

bool weft__fd_unlink(struct weft__fd *record, struct weft__op *op, struct weft__driver *here)
{
    weft__latch_lock(&record->lock);
    bool linked = op->linked;
    if (linked) {
        weft__fd_remove_locked(record, op);
        weft__driver_count(here, -1);
    }
    weft__latch_unlock(&record->lock);
    return linked;
}

/* The wait is over; its owner may unlink and free it as soon as the record's lock is released. */
static void return_locked(struct weft__op *op, struct weft__io_done *done)
{
    if (op->queue) {
        weft__op_queue_push(op->queue, op, done->own);
    } else {
        uint64_t ticket = atomic_load_explicit(&op->wait.word, memory_order_relaxed);
        weft__io_done_wake(done, op->wait.waiter, ticket, NULL);
    }
}

/* Waits for readiness are completed here; an operation that a driver has in flight is requested to
 * end, and completes through its driver. */
static void complete_side_locked(struct weft__fd *record, enum weft__side side, int result,
                                 struct weft__driver *here, struct weft__io_done *done)
{
    struct weft__op *op, *next;
    weft__fd_wake_locked(record, side, here, NULL, done);
    for (op = weft__fd_next_locked(record, side, NULL); op; op = next) {
        next = weft__fd_next_locked(record, side, op);
        if (op->on_thread) {
            if (result != 0) {
                op->closed = true; /* the operation ends when its thread has performed it */
            }
            continue;
        }
        if (op->driver->kind->completes) {
            if (result != 0) {
                op->closed = true;
                weft__driver_request_cancel(op->driver, op);
            }
            continue;
        }
        weft__fd_remove_locked(record, op);
        weft__driver_count(here, -1);
        op->result = result;
        return_locked(op, done);
    }
}

/* Returns true if operations are still in flight: the last one to end calls the closer. *own is for
 * the caller to close. */
static bool forget_locked(struct weft__fd *record, struct weft__fd_closer *closer,
                          struct weft__driver *here, struct weft__io_done *done, int *reopened)
{
    if (!weft__fd_is(record, WEFT__FD_REGISTERED)) { /* another caller did it first */
        return false;
    }
    *reopened = unregister_locked(record);
    complete_side_locked(record, WEFT__SIDE_IN, WEFT__CLOSED, here, done);
    complete_side_locked(record, WEFT__SIDE_OUT, WEFT__CLOSED, here, done);
    bool pending = has_ops_locked(record);
    record->closer = pending ? closer : NULL;
    atomic_store_explicit(&record->flags, pending ? WEFT__FD_CLOSE_PENDING : 0,
                          memory_order_release);
    return pending;
}

bool weft__fd_forget(struct weft__fd *record, struct weft__fd_closer *closer,
                     struct weft__driver *here, struct weft__io_done *done)
{
    int reopened = -1;
    weft__latch_lock(&record->lock);
    bool pending = forget_locked(record, closer, here, done, &reopened);
    weft__latch_unlock(&record->lock);
    close_reopened(reopened);
    return pending;
}

/* Close the number of an unregistered record; releases the lock during close(2).
 *
 * The generation changes after the close, because a reader of the old generation may have inspected
 * the old descriptor (register_locked). If the generation has changed already, the kernel has given
 * the number to another caller of ours. */
static int finish_close_locked(struct weft__fd *record)
{
    uint32_t generation = weft__fd_generation(record);
    atomic_store_explicit(&record->flags, WEFT__FD_IN_CLOSE, memory_order_relaxed);
    weft__latch_unlock(&record->lock);
    int err = weft__fd_close_number(record->number);
    weft__latch_lock(&record->lock);
    if (weft__fd_generation(record) == generation) {
        atomic_store_explicit(&record->flags, 0, memory_order_relaxed);
        atomic_store_explicit(&record->generation, generation + 1,
                              memory_order_release); /* pairs: weft__fd_use_unknown */
    }
    return err;
}

/* The descriptor is being closed, and one operation on it has ended. Returns the closer if it was
 * the last: for the caller to notify, without the lock. */
struct weft__fd_closer *weft__fd_take_drained_locked(struct weft__fd *record)
{
    struct weft__fd_closer *closer = record->closer;
    if (!closer || has_ops_locked(record)) {
        return NULL;
    }
    record->closer = NULL;
    atomic_store_explicit(&record->flags, 0, memory_order_release);
    if (closer->closes) {
        closer->err = finish_close_locked(record);
    }
    return closer;
}

bool weft__fd_forget_and_close(struct weft__fd *record, struct weft__fd_closer *closer,
                               struct weft__driver *here, struct weft__io_done *done, int *err)
{
    int reopened = -1;
    lock_after_close(record);
    bool closing = weft__fd_is(record, WEFT__FD_CLOSE_PENDING);
    bool pending = forget_locked(record, closer, here, done, &reopened);
    *err = closing ? -EBADF : pending ? 0 : finish_close_locked(record);
    weft__latch_unlock(&record->lock);
    close_reopened(reopened);
    return pending;
}

void weft__fd_edge_listed_locked(struct weft__fd *record, enum weft__side side,
                                 struct weft__driver *here, struct weft__io_done *done)
{
    complete_side_locked(record, side, 0, here, done);
}

void weft__fd_hang_up_locked(struct weft__fd *record, struct weft__driver *here,
                             struct weft__io_done *done)
{
    atomic_fetch_or_explicit(&record->flags, WEFT__FD_HUNG_UP, memory_order_relaxed);
    weft__fd_edge_locked(record, WEFT__SIDE_IN, here, done);
    weft__fd_edge_locked(record, WEFT__SIDE_OUT, here, done);
}

/* --- drivers and processes that end ------------------------------------------------------ */

static void resubmit_side_locked(struct weft__driver *driver, struct weft__fd *record,
                                 enum weft__side side)
{
    struct weft__op *op = NULL;
    while ((op = weft__fd_next_locked(record, side, op))) {
        if (op->driver == driver) {
            op->resubmit = true;
            weft__driver_request_cancel(driver, op);
        }
    }
}

static void evict_locked(struct weft__driver *driver, struct weft__fd *record,
                         struct weft__io_done *done)
{
    if (driver->kind->completes) {
        resubmit_side_locked(driver, record, WEFT__SIDE_IN);
        resubmit_side_locked(driver, record, WEFT__SIDE_OUT);
    } else if (record->driver == driver) {
        driver->kind->forget(driver, record);
        set_driver_locked(record, NULL);
        weft__fd_edge_locked(record, WEFT__SIDE_IN, driver, done);
        weft__fd_edge_locked(record, WEFT__SIDE_OUT, driver, done);
    }
}

void weft__fd_evict(struct weft__driver *driver, struct weft__io_done *done)
{
    for (unsigned i = 0; i < WEFT__FD_PAGES; i++) {
        struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[i], memory_order_acquire);
        for (unsigned j = 0; page && j < WEFT__FD_PAGE; j++) {
            weft__latch_lock(&page[j].lock);
            evict_locked(driver, &page[j], done);
            weft__latch_unlock(&page[j].lock);
        }
    }
}

void weft__fd_detach_driver(struct weft__driver *driver)
{
    for (unsigned i = 0; i < WEFT__FD_PAGES; i++) {
        struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[i], memory_order_acquire);
        for (unsigned j = 0; page && j < WEFT__FD_PAGE; j++) {
            weft__latch_lock(&page[j].lock);
            if (page[j].driver == driver) {
                driver->kind->forget(driver, &page[j]);
                set_driver_locked(&page[j], NULL);
            }
            weft__latch_unlock(&page[j].lock);
        }
    }
}

/* The threads that held a lock do not exist in the child, nor do the waiters. */
void weft__fd_fork_child(void)
{
    for (unsigned i = 0; i < WEFT__FD_PAGES; i++) {
        struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[i], memory_order_relaxed);
        for (unsigned j = 0; page && j < WEFT__FD_PAGE; j++) {
            atomic_store_explicit(&page[j].lock.taken, 0, memory_order_relaxed);
            if (weft__fd_is(&page[j], WEFT__FD_IN_CLOSE)) {
                atomic_store_explicit(&page[j].flags, 0, memory_order_relaxed);
            }
            set_driver_locked(&page[j], NULL);
            page[j].listed = false;
            for (int side = 0; side < 2; side++) {
                page[j].list[side] = (struct weft__fd_list){NULL, NULL};
                weft__fd_slot_clear(&page[j].slot[side]);
            }
        }
    }
}
