/* A waiter enters, reads the close count, tries once more, and waits only if the count has not
 * changed. A closer first closes the descriptor and then checks whether a waiter has entered. The
 * system calls in between take the same lock of the kernel's descriptor table, so either the
 * waiter's try finds the free number or the closer finds the waiter. */
#include "net/room.h"

#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "sched/fork.h"
#include "sched/waiter.h"

static const struct weft__wait_kind room_kind = {.name = "a free descriptor"};

static struct {
    struct weft__lock lock;
    _Atomic(uint32_t) inside;
    _Atomic(uint64_t) closed;      /* counted only between enter and leave; written under the
                                      lock */
    struct weft__waitlist waiters; /* under the lock */
} room;

#ifdef WEFT_EXPLORE /* the model checker restarts executions */
void weft__room_reset(void)
{
    memset(&room, 0, sizeof room);
}
#endif

bool weft__room_lacks(int64_t result)
{
    return result == -EMFILE || result == -ENFILE || result == -ENOBUFS || result == -ENOMEM;
}

static void fork_prepare(void)
{
    weft__lock(&room.lock);
}

static void fork_parent(void)
{
    weft__unlock(&room.lock);
}

/* The waiters exist only in the parent. */
static void fork_child(void)
{
    atomic_store_explicit(&room.lock.word, 0, memory_order_relaxed);
    atomic_store_explicit(&room.inside, 0, memory_order_relaxed);
    room.waiters.first = room.waiters.last = NULL;
}

static void watch_forks(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

void weft__room_enter(void)
{
    static struct weft__fork_once once;
    weft__fork_once(&once, watch_forks);
    atomic_fetch_add_explicit(&room.inside, 1, memory_order_seq_cst);
}

void weft__room_leave(void)
{
    atomic_fetch_sub_explicit(&room.inside, 1, memory_order_relaxed);
}

uint64_t weft__room_closed(void)
{
    return atomic_load_explicit(&room.closed, memory_order_relaxed);
}

int weft__room_wait(uint64_t closed, int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node node;
    weft__node_init(&node, &waiter, 0);
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT | WEFT__WAIT_OUTSIDE);
    weft__lock(&room.lock);
    bool wait = weft__room_closed() == closed;
    if (wait) {
        weft__waitlist_push(&room.waiters, &node);
    }
    weft__unlock(&room.lock);
    if (!wait) {
        return weft__waiter_end_by(weft__waiter_disarm(&waiter), &room_kind, 0);
    }
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &room_kind, 0);
    if (weft__reason_done(reason)) {
        return 0;
    }
    weft__lock(&room.lock);
    if (node.linked) {
        weft__waitlist_remove(&room.waiters, &node);
    }
    weft__unlock(&room.lock);
    return weft__reason_errno(reason);
}

/* One freed number wakes one waiter; waiters whose wait has ended already are skipped. */
void weft__room_freed(void)
{
    if (atomic_load_explicit(&room.inside, memory_order_seq_cst) == 0) {
        return;
    }
    struct weft__chain ready;
    struct weft__node *node;
    weft__chain_init(&ready);
    weft__lock(&room.lock);
    atomic_store_explicit(&room.closed, weft__room_closed() + 1, memory_order_relaxed);
    while ((node = weft__waitlist_pop(&room.waiters)) && !weft__node_fire(node, NULL, 0, &ready)) {
    }
    weft__unlock(&room.lock);
    weft__place_chain(&ready);
}
