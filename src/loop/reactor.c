/* Watches: level-triggered notification, built from one-shot waits.
 *
 * A watch is *unverified* after it was added, called or modified, or after an edge. With a driver
 * that reports readiness, one poll(2) with a zero timeout checks all of them; those that are ready
 * are called, the others are linked to their descriptors. With a driver that completes operations,
 * such a watch submits a poll operation for each direction it wants, which completes at once if the
 * descriptor is ready.
 *
 * A watch without events is paused: it waits for nothing, so it learns of a close only if the loop
 * itself closes the descriptor.
 *
 * If a watch is removed while its wait is in flight, the memory is freed when that wait has ended.
 */
#include <weft/loop.h>

#include <errno.h>
#include <poll.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "loop/loop.h"

#define CHUNK 64

struct side {
    struct weft__loop_item item;
    weft_watch *watch;
    bool busy; /* linked, in flight or woken */
};

struct weft_watch {
    weft_loop *loop;
    int fd;
    uint32_t generation;
    weft_watch_fn fn;
    void *arg;
    struct weft__list link;     /* in unverified, ready or resting */
    struct weft__list all_link; /* in the list of all watches of the loop */
    int events;                 /* wanted events */
    int ready;                  /* events found; masked with the wanted ones at the call */
    int end;                    /* negative: the watch has ended, and this is to be reported */
    bool removed;               /* removed; only waits in flight keep the memory */
    struct side sides[2];
};

static const int bits[] = {[WEFT__SIDE_IN] = WEFT_READABLE, [WEFT__SIDE_OUT] = WEFT_WRITABLE};

static weft_watch *of_link(struct weft__list *link)
{
    return link ? WEFT__LIST_OF(link, weft_watch, link) : NULL;
}

/* --- the end of a watch -------------------------------------------------------------------- */

static bool is_busy(const weft_watch *watch)
{
    return watch->sides[WEFT__SIDE_IN].busy || watch->sides[WEFT__SIDE_OUT].busy;
}

static void disarm(weft_watch *watch)
{
    weft_loop *loop = watch->loop;
    for (int i = 0; i < 2; i++) {
        struct side *side = &watch->sides[i];
        if (!side->busy) {
            continue;
        }
        if (loop->completes) {
            loop->dirty = true;
            weft__driver_request_cancel(loop->driver, &side->item.op);
        } else if (weft__fd_unlink(weft__fd_record(watch->fd), &side->item.op,
                                   weft__loop_here(loop))) {
            side->busy = false;
        } /* else it was woken, and its report will be handled */
    }
}

static void detach(weft_watch *watch)
{
    disarm(watch);
    weft__list_unlink(&watch->link);
    weft__list_unlink(&watch->all_link);
    watch->loop->watches--;
    watch->removed = true;
    if (!is_busy(watch)) {
        weft__free(watch);
    }
}

static void end(weft_watch *watch, int result)
{
    if (watch->end == 0) {
        watch->end = result;
        disarm(watch);
        weft__list_push(&watch->loop->ready, &watch->link);
    }
}

static bool is_closed(const weft_watch *watch)
{
    return weft__fd_generation(weft__fd_record(watch->fd)) != watch->generation;
}

/* --- waits ----------------------------------------------------------------------------------- */

static void woken(struct weft__loop_item *item)
{
    struct side *side = (struct side *)(void *)item;
    weft_watch *watch = side->watch;
    int64_t result = item->op.result;
    side->busy = false;
    if (watch->removed) {
        if (!is_busy(watch)) {
            weft__free(watch);
        }
        return;
    }
    if (watch->end < 0) {
        return;
    }
    if (result < 0) {
        end(watch, result == -EBADF ? WEFT__CLOSED : (int)result);
    } else if (!watch->loop->completes) {
        weft__list_push(&watch->loop->unverified, &watch->link);
    } else {
        watch->ready |= bits[item->op.side];
        weft__list_push(&watch->loop->ready, &watch->link);
    }
}

static bool wants(const weft_watch *watch, int side)
{
    return (watch->events & bits[side]) && !watch->sides[side].busy;
}

static void submit(weft_watch *watch)
{
    weft_loop *loop = watch->loop;
    for (int i = 0; i < 2; i++) {
        if (wants(watch, i)) {
            watch->sides[i].busy = true;
            watch->sides[i].item.op.result = 0;
            weft__loop_submit(loop, &watch->sides[i].item.op);
        }
    }
}

static void link_to(weft_watch *watch, const uint32_t edges[2])
{
    weft_loop *loop = watch->loop;
    struct weft__fd *record = weft__fd_record(watch->fd);
    int err = weft__loop_claim(loop, record);
    if (err) {
        end(watch, err);
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (!wants(watch, i)) {
            continue;
        }
        watch->sides[i].busy = true; /* set before: another thread's close may wake it at once */
        err = weft__loop_link(loop, record, &watch->sides[i].item.op, watch->generation, edges[i]);
        if (err) {
            watch->sides[i].busy = false;
        }
        if (err == -EAGAIN) {
            weft__list_push(&loop->unverified, &watch->link); /* an edge arrived in the meantime */
        } else if (err) {
            end(watch, err);
            return;
        }
    }
}

struct probe {
    weft_watch *watch;
    uint32_t edges[2]; /* read before the poll */
};

static short poll_events(const weft_watch *watch)
{
    return (short)((watch->events & WEFT_READABLE ? POLLIN | POLLRDHUP : 0) |
                   (watch->events & WEFT_WRITABLE ? POLLOUT : 0));
}

static void apply_poll(const struct probe *probe, short revents)
{
    weft_watch *watch = probe->watch;
    int sides = weft__loop_sides(revents);
    if (sides < 0) {
        end(watch, sides);
        return;
    }
    watch->ready = ((sides & 1 << WEFT__SIDE_IN ? WEFT_READABLE : 0) |
                    (sides & 1 << WEFT__SIDE_OUT ? WEFT_WRITABLE : 0)) &
                   watch->events;
    if (watch->ready) {
        weft__list_push(&watch->loop->ready, &watch->link);
    } else {
        link_to(watch, probe->edges);
    }
}

/* True: there may be more. */
static bool verify_chunk(struct weft__list *unverified)
{
    struct pollfd pollfds[CHUNK];
    struct probe probes[CHUNK];
    weft_watch *watch;
    unsigned n = 0;
    while (n < CHUNK && (watch = of_link(weft__list_pop(unverified)))) {
        if (is_closed(watch)) {
            end(watch, WEFT__CLOSED);
        } else if (!watch->events) {
            weft__list_push(&watch->loop->paused, &watch->link);
        } else {
            const struct weft__fd *record = weft__fd_record(watch->fd);
            probes[n].watch = watch;
            probes[n].edges[WEFT__SIDE_IN] = weft__fd_edges(&record->side[WEFT__SIDE_IN]);
            probes[n].edges[WEFT__SIDE_OUT] = weft__fd_edges(&record->side[WEFT__SIDE_OUT]);
            pollfds[n++] = (struct pollfd){.fd = watch->fd, .events = poll_events(watch)};
        }
    }
    if (n > 0 && poll(pollfds, n, 0) < 0) {
        for (unsigned i = 0; i < n; i++) { /* no kernel memory: retry in the next turn */
            weft__list_push(&probes[i].watch->loop->unverified, &probes[i].watch->link);
        }
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        apply_poll(&probes[i], pollfds[i].revents);
    }
    return n == CHUNK;
}

void weft__reactor_verify(weft_loop *loop)
{
    struct weft__list now;
    weft_watch *watch;
    weft__list_take(&now, &loop->unverified);
    if (!loop->completes) {
        while (verify_chunk(&now)) {
        }
    }
    while ((watch = of_link(weft__list_pop(&now)))) {
        if (is_closed(watch)) {
            end(watch, WEFT__CLOSED);
        } else if (loop->completes && !watch->events) {
            weft__list_push(&loop->paused, &watch->link);
        } else if (loop->completes) {
            submit(watch);
        } else {
            weft__list_push(&loop->unverified, &watch->link);
        }
    }
}

/* --- callbacks -------------------------------------------------------------------------------- */

int weft__reactor_dispatch(weft_loop *loop)
{
    struct weft__list now;
    weft_watch *watch;
    int n = 0;
    weft__list_take(&now, &loop->ready);
    while ((watch = of_link(weft__list_pop(&now)))) {
        if (watch->end == 0 && is_closed(watch)) {
            watch->end = WEFT__CLOSED;
            disarm(watch);
        }
        if (watch->end < 0) {
            n++;
            watch->fn(watch, watch->fd, watch->end, watch->arg);
            detach(watch);
            continue;
        }
        int ready = watch->ready & watch->events;
        watch->ready = 0;
        weft__list_push(&loop->unverified, &watch->link);
        if (ready) {
            n++;
            watch->fn(watch, watch->fd, ready, watch->arg); /* the watch may be freed */
        }
    }
    return n;
}

/* They notice the close when they are verified next. */
void weft__reactor_fd_closed(weft_loop *loop, int fd)
{
    struct weft__list *at = loop->paused.next, *next;
    for (; at != &loop->paused; at = next) {
        next = at->next;
        if (of_link(at)->fd == fd) {
            weft__list_push(&loop->unverified, at);
        }
    }
}

void weft__reactor_remove_all(weft_loop *loop)
{
    while (!weft__list_empty(&loop->all)) {
        detach(WEFT__LIST_OF(loop->all.next, weft_watch, all_link));
    }
}

/* --- public calls ----------------------------------------------------------------------------- */

int weft_watch_add(weft_loop *loop, weft_watch **out, int fd, int events, weft_watch_fn fn,
                   void *arg)
{
    int err = 0;
    if (!events || events & ~(WEFT_READABLE | WEFT_WRITABLE)) {
        return -EINVAL;
    }
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    err = weft__fd_is(record, WEFT__FD_FILE) ? -EPERM : weft__loop_claim(loop, record);
    if (err) {
        return err;
    }
    weft_watch *watch = weft__alloc(sizeof *watch);
    if (!watch) {
        return -ENOMEM;
    }
    *watch = (weft_watch){
        .loop = loop,
        .fd = fd,
        .generation = weft__fd_generation(record),
        .fn = fn,
        .arg = arg,
        .events = events,
    };
    for (int i = 0; i < 2; i++) {
        struct weft__op op = {
            .queue = &loop->woken, .fd = fd, .code = WEFT__OP_READY, .side = (uint8_t)i};
        watch->sides[i] =
            (struct side){.item = {.op = op, .loop = loop, .woken = woken}, .watch = watch};
    }
    weft__list_init(&watch->link);
    weft__list_init(&watch->all_link);
    weft__list_push(&loop->all, &watch->all_link);
    weft__list_push(&loop->unverified, &watch->link);
    loop->watches++;
    *out = watch;
    return 0;
}

int weft_watch_modify(weft_watch *watch, int events)
{
    WEFT__NONNULL(watch);
    if (events & ~(WEFT_READABLE | WEFT_WRITABLE)) {
        return -EINVAL;
    }
    if (watch->end < 0) {
        return -ENOENT;
    }
    watch->events = events;
    if (!watch->ready) { /* else it is verified after its call */
        weft__list_push(&watch->loop->unverified, &watch->link);
    }
    return 0;
}

int weft_watch_remove(weft_watch *watch)
{
    WEFT__NONNULL(watch);
    /* A watch whose last callback is running is in no list, and is freed when that returns. */
    if (watch->end < 0 && weft__list_empty(&watch->link)) {
        return -ENOENT;
    }
    detach(watch);
    return 0;
}

int weft_watch_cancel(weft_watch *watch)
{
    WEFT__NONNULL(watch);
    if (watch->end < 0) {
        return -ENOENT;
    }
    end(watch, -ECANCELED);
    return 0;
}

int weft_watch_cancel_all(weft_loop *loop, int fd)
{
    WEFT__NONNULL(loop);
    int n = 0;
    for (struct weft__list *at = loop->all.next; at != &loop->all; at = at->next) {
        weft_watch *watch = WEFT__LIST_OF(at, weft_watch, all_link);
        if (fd < 0 || watch->fd == fd) {
            n += weft_watch_cancel(watch) == 0;
        }
    }
    return n > 0 ? n : -ENOENT;
}
