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
#include "io/stat.h"

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

static void set_home_locked(struct weft__fd *record, struct weft__driver *home)
{
    record->home = home;
    if (home && !home->kind->armed) {
        atomic_fetch_or_explicit(&record->flags, WEFT__FD_WATCHED, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&record->flags, (uint16_t)~WEFT__FD_WATCHED,
                                  memory_order_relaxed);
    }
}

/* Unregister the descriptor: end its driver's interest. Returns the descriptor that was reopened
 * for our use, which the caller closes; -1: none. */
static int leave_locked(struct weft__fd *record)
{
    if (record->home) {
        record->home->kind->forget(record->home, record);
        set_home_locked(record, NULL);
    }
    next_generation_locked(record);
    return weft__fd_is(record, WEFT__FD_SHARED) ? weft__fd_leave_shared(record) : -1;
}

static void close_own(int own)
{
    if (own >= 0) {
        close(own);
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
    atomic_store_explicit(&record->flags, (uint16_t)(flags | WEFT__FD_KNOWN), memory_order_release);
}

int weft__fd_open(int fd, unsigned flags)
{
    struct weft__fd *record = weft__fd_record(fd);
    if (!record) {
        return -ENOMEM;
    }
    weft__latch_take(&record->lock);
    int own = leave_locked(record); /* if it was closed without our knowledge */
    open_locked(record, flags);
    weft__latch_drop(&record->lock);
    close_own(own);
    return 0;
}

void weft__fd_arrived(int fd)
{
    struct weft__fd *record = weft__fd_record(fd);
    if (!record) {
        return; /* no memory: the next use of the descriptor reports it */
    }
    weft__latch_take(&record->lock);
    int own = leave_locked(record);
    atomic_store_explicit(&record->flags, 0, memory_order_release);
    weft__latch_drop(&record->lock);
    close_own(own);
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
    weft__latch_take(&record->lock);
    int err = weft__fd_is(record, WEFT__FD_KNOWN) ? unblock(record->number) : -EBADF;
    if (!err) {
        atomic_fetch_or_explicit(&record->flags, WEFT__FD_NONBLOCK, memory_order_relaxed);
    }
    weft__latch_drop(&record->lock);
    return err;
}

int weft__fd_look(int fd, unsigned *flags)
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
            protocol == IPPROTO_TCP) { /* as weft__fd_of_socket */
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
static int learn_locked(struct weft__fd *record, unsigned flags, uint32_t generation)
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
static void take_settled(struct weft__fd *record)
{
    weft__latch_take(&record->lock);
    while (__builtin_expect(weft__fd_is(record, WEFT__FD_SHUTTING), 0)) {
        weft__latch_drop(&record->lock);
        for (unsigned times = 0; weft__fd_is(record, WEFT__FD_SHUTTING); times++) {
            weft__latch_stay_away(times);
        }
        weft__latch_take(&record->lock);
    }
}

struct weft__fd *weft__fd_use_unknown(int fd, int *err)
{
    struct weft__fd *record = weft__fd_record(fd);
    unsigned flags = 0;
    if (!record) { /* no memory, or a number beyond the table, which is usually no valid
                      descriptor at all */
        *err = fd < 0 ? -EBADF : weft__fd_look(fd, &flags);
        *err = *err ? *err : -ENOMEM;
        return NULL;
    }
    do {
        /* pairs: weft__fd_shut_locked */
        uint32_t generation = atomic_load_explicit(&record->generation, memory_order_acquire);
        *err = weft__fd_is(record, WEFT__FD_CLOSING) ? -EBADF : weft__fd_look(fd, &flags);
        if (*err) {
            return NULL;
        }
        take_settled(record);
        if (weft__fd_is(record, WEFT__FD_CLOSING)) {
            *err = -EBADF;
        } else if (!weft__fd_is(record, WEFT__FD_KNOWN)) {
            *err = learn_locked(record, flags, generation);
        }
        weft__latch_drop(&record->lock);
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

static struct weft__op *in_place_locked(const struct weft__fd *record, enum weft__side side)
{
    const struct weft__fd_place *at = &record->place[side];
    return at->ticket == WEFT__FD_FLIES ? weft__fd_who(at) : NULL;
}

struct weft__op *weft__fd_next_locked(const struct weft__fd *record, enum weft__side side,
                                      const struct weft__op *op)
{
    struct weft__op *first = in_place_locked(record, side);
    return !op && first ? first : !op || op == first ? record->list[side].first : op->next;
}

/* Whether a driver or a thread still has an operation on this number. */
static bool is_named_locked(const struct weft__fd *record)
{
    return record->listed || in_place_locked(record, WEFT__SIDE_IN) ||
           in_place_locked(record, WEFT__SIDE_OUT);
}

/* The descriptor is being closed, and one operation on it has ended. */
void weft__fd_ended_locked(struct weft__fd *record, void *ready)
{
    struct weft__fd_closer *closer = record->closer;
    if (closer && !is_named_locked(record)) {
        record->closer = NULL;
        atomic_store_explicit(&record->flags, 0, memory_order_release);
        closer->empty(closer, ready);
    }
}

bool weft__fd_unlearn(struct weft__fd *record)
{
    int own = -1;
    weft__latch_take(&record->lock);
    bool file = weft__fd_is(record, WEFT__FD_FILE); /* else another caller did it first */
    bool named = file && is_named_locked(record);
    if (file && !named) {
        own = leave_locked(record);
        atomic_store_explicit(&record->flags, 0, memory_order_release);
    }
    weft__latch_drop(&record->lock);
    close_own(own);
    return !named;
}

static int watch_locked(struct weft__fd *record, struct weft__driver *driver)
{
    /* A forgotten descriptor is about to be closed: no further event would be reported for it. The
     * waiter may have begun after that, and would not see the generation change. */
    int err =
        weft__fd_is(record, WEFT__FD_KNOWN) ? driver->kind->watch(driver, record) : WEFT__CLOSED;
    set_home_locked(record, err ? NULL : driver);
    return err;
}

int weft__fd_claim(struct weft__fd *record, struct weft__driver *driver)
{
    weft__latch_take(&record->lock);
    int err = record->home ? 0 : watch_locked(record, driver);
    err = !err && record->home != driver ? -EBUSY : err;
    weft__latch_drop(&record->lock);
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
    if (!record->home) {
        err = watch_locked(record, driver);
    }
    return !err && atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) != edges
               ? -EAGAIN
               : err;
}

static void waits_locked(struct weft__fd *record, struct weft__driver *driver)
{
    weft__driver_count(driver, 1);
    if (record->home->kind->armed) {
        record->home->kind->armed(record->home);
    }
}

int weft__fd_link(struct weft__fd *record, struct weft__op *op, uint32_t generation, uint32_t edges,
                  struct weft__driver *driver)
{
    weft__latch_take(&record->lock);
    int err = begin_wait_locked(record, (enum weft__side)op->side, generation, edges, driver);
    if (!err) {
        op->driver = record->home;
        weft__fd_push_locked(record, op);
        waits_locked(record, driver);
    }
    weft__latch_drop(&record->lock);
    return err;
}

int weft__fd_wait_any_locked(struct weft__fd *record, enum weft__side side, uint32_t generation,
                             uint32_t edges, struct weft__driver *driver, void *who,
                             uint64_t ticket)
{
    struct weft__fd_place *at = &record->place[side];
    int err = begin_wait_locked(record, side, generation, edges, driver);
    if (!err && weft__fd_who(at)) {
        err = -EBUSY;
    }
    if (!err) {
        weft__fd_set_who(at, who);
        at->ticket = ticket;
        waits_locked(record, driver);
    }
    return err;
}

void weft__fd_unwait(struct weft__fd *record, enum weft__side side, void *who, uint64_t ticket,
                     struct weft__driver *here)
{
    struct weft__fd_place *at = &record->place[side];
    weft__latch_take(&record->lock);
    if (weft__fd_who(at) == who && at->ticket == ticket) {
        weft__fd_set_who(at, NULL);
        weft__driver_count(here, -1);
    }
    weft__latch_drop(&record->lock);
}

bool weft__fd_unlink(struct weft__fd *record, struct weft__op *op, struct weft__driver *here)
{
    weft__latch_take(&record->lock);
    bool linked = op->linked;
    if (linked) {
        weft__fd_remove_locked(record, op);
        weft__driver_count(here, -1);
    }
    weft__latch_drop(&record->lock);
    return linked;
}

/* Waits for readiness are completed here; an operation that a driver has in flight is requested to
 * end, and completes through its driver. */
static void complete_side_locked(struct weft__fd *record, enum weft__side side, int result,
                                 struct weft__driver *here, void *ready)
{
    struct weft__op *op, *next;
    weft__fd_fire_locked(record, side, here, NULL, ready);
    for (op = weft__fd_next_locked(record, side, NULL); op; op = next) {
        next = weft__fd_next_locked(record, side, op);
        if (op->late) {
            if (result != 0) {
                op->closed = true; /* the operation ends when its thread has performed it */
            }
            continue;
        }
        if (op->driver->kind->completes) {
            if (result != 0) {
                op->closed = true;
                weft__driver_ask(op->driver, op);
            }
            continue;
        }
        weft__fd_remove_locked(record, op);
        weft__driver_count(here, -1);
        op->result = result;
        op->complete(op, ready); /* op may be freed */
    }
}

/* Returns true if operations are still in flight: the last one to end calls the closer. *own is for
 * the caller to close. */
static bool forget_locked(struct weft__fd *record, struct weft__fd_closer *closer,
                          struct weft__driver *here, void *ready, int *own)
{
    if (!weft__fd_is(record, WEFT__FD_KNOWN)) { /* another caller did it first */
        return false;
    }
    *own = leave_locked(record);
    complete_side_locked(record, WEFT__SIDE_IN, WEFT__CLOSED, here, ready);
    complete_side_locked(record, WEFT__SIDE_OUT, WEFT__CLOSED, here, ready);
    bool later = is_named_locked(record);
    record->closer = later ? closer : NULL;
    atomic_store_explicit(&record->flags, later ? WEFT__FD_CLOSING : 0, memory_order_release);
    return later;
}

bool weft__fd_forget(struct weft__fd *record, struct weft__fd_closer *closer,
                     struct weft__driver *here, void *ready)
{
    int own = -1;
    weft__latch_take(&record->lock);
    bool later = forget_locked(record, closer, here, ready, &own);
    weft__latch_drop(&record->lock);
    close_own(own);
    return later;
}

/* The generation changes after the close, because a reader of the old generation may have inspected
 * the old descriptor (learn_locked). If the generation has changed already, the kernel has given
 * the number to another caller of ours. */
int weft__fd_shut_locked(struct weft__fd *record)
{
    uint32_t generation = weft__fd_generation(record);
    atomic_store_explicit(&record->flags, WEFT__FD_SHUTTING, memory_order_relaxed);
    weft__latch_drop(&record->lock);
    int err = weft__fd_close_number(record->number);
    weft__latch_take(&record->lock);
    if (weft__fd_generation(record) == generation) {
        atomic_store_explicit(&record->flags, 0, memory_order_relaxed);
        atomic_store_explicit(&record->generation, generation + 1,
                              memory_order_release); /* pairs: weft__fd_use_unknown */
    }
    return err;
}

bool weft__fd_dispose(struct weft__fd *record, struct weft__fd_closer *closer,
                      struct weft__driver *here, void *ready, int *err)
{
    int own = -1;
    take_settled(record);
    bool closing = weft__fd_is(record, WEFT__FD_CLOSING);
    bool later = forget_locked(record, closer, here, ready, &own);
    *err = closing ? -EBADF : later ? 0 : weft__fd_shut_locked(record);
    weft__latch_drop(&record->lock);
    close_own(own);
    return later;
}

void weft__fd_edge_listed_locked(struct weft__fd *record, enum weft__side side,
                                 struct weft__driver *here, void *ready)
{
    complete_side_locked(record, side, 0, here, ready);
}

void weft__fd_hang_up_locked(struct weft__fd *record, struct weft__driver *here, void *ready)
{
    atomic_fetch_or_explicit(&record->flags, WEFT__FD_HUNG, memory_order_relaxed);
    weft__fd_edge_locked(record, WEFT__SIDE_IN, here, ready);
    weft__fd_edge_locked(record, WEFT__SIDE_OUT, here, ready);
}

/* --- drivers and processes that end ------------------------------------------------------ */

static void move_locked(struct weft__driver *driver, struct weft__fd *record, enum weft__side side)
{
    struct weft__op *op = NULL;
    while ((op = weft__fd_next_locked(record, side, op))) {
        if (op->driver == driver) {
            op->moved = true;
            weft__driver_ask(driver, op);
        }
    }
}

static void evict_locked(struct weft__driver *driver, struct weft__fd *record, void *ready)
{
    if (driver->kind->completes) {
        move_locked(driver, record, WEFT__SIDE_IN);
        move_locked(driver, record, WEFT__SIDE_OUT);
    } else if (record->home == driver) {
        driver->kind->forget(driver, record);
        set_home_locked(record, NULL);
        weft__fd_edge_locked(record, WEFT__SIDE_IN, driver, ready);
        weft__fd_edge_locked(record, WEFT__SIDE_OUT, driver, ready);
    }
}

void weft__fd_evict(struct weft__driver *driver, void *ready)
{
    for (unsigned i = 0; i < WEFT__FD_PAGES; i++) {
        struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[i], memory_order_acquire);
        for (unsigned j = 0; page && j < WEFT__FD_PAGE; j++) {
            weft__latch_take(&page[j].lock);
            evict_locked(driver, &page[j], ready);
            weft__latch_drop(&page[j].lock);
        }
    }
}

void weft__fd_leave(struct weft__driver *driver)
{
    for (unsigned i = 0; i < WEFT__FD_PAGES; i++) {
        struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[i], memory_order_acquire);
        for (unsigned j = 0; page && j < WEFT__FD_PAGE; j++) {
            weft__latch_take(&page[j].lock);
            if (page[j].home == driver) {
                driver->kind->forget(driver, &page[j]);
                set_home_locked(&page[j], NULL);
            }
            weft__latch_drop(&page[j].lock);
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
            if (weft__fd_is(&page[j], WEFT__FD_SHUTTING)) {
                atomic_store_explicit(&page[j].flags, 0, memory_order_relaxed);
            }
            set_home_locked(&page[j], NULL);
            page[j].listed = false;
            for (int side = 0; side < 2; side++) {
                page[j].list[side] = (struct weft__fd_list){NULL, NULL};
                weft__fd_set_who(&page[j].place[side], NULL);
            }
        }
    }
}
