/* A waiter enters, reads the close count, tries once more, and waits only if the count has not
 * changed. A closer first closes the descriptor and then checks whether a waiter has entered. The
 * system calls in between take the same lock of the kernel's descriptor table, so either the
 * waiter's try finds the free number or the closer finds the waiter. */
#include "fdio/fd_exhaustion.h"

#include <errno.h>
#include <string.h>

#include "lock/lock.h"
#include "task/fork.h"
#include "wait/waiter.h"

static const struct weft__wait_kind exhaustion_kind = {.name = "a free descriptor"};

static struct {
    struct weft__lock lock;
    _Atomic(uint32_t) entered;
    _Atomic(uint64_t) close_count; /* counted only between enter and leave; written under the
                                      lock */
    struct weft__waitlist waiters; /* under the lock */
} exhaustion;

#ifdef WEFT_EXPLORE /* the model checker restarts executions */
void weft__fd_exhaustion_reset(void)
{
    memset(&exhaustion, 0, sizeof exhaustion);
}
#endif

bool weft__is_fd_exhaustion(int64_t result)
{
    return result == -EMFILE || result == -ENFILE || result == -ENOBUFS || result == -ENOMEM;
}

static void fork_prepare(void)
{
    weft__lock(&exhaustion.lock);
}

static void fork_parent(void)
{
    weft__unlock(&exhaustion.lock);
}

/* The waiters exist only in the parent. */
static void fork_child(void)
{
    atomic_store_explicit(&exhaustion.lock.word, 0, memory_order_relaxed);
    atomic_store_explicit(&exhaustion.entered, 0, memory_order_relaxed);
    exhaustion.waiters.first = exhaustion.waiters.last = NULL;
}

static void watch_forks(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

void weft__fd_exhaustion_enter(void)
{
    static struct weft__fork_once once;
    weft__fork_once(&once, watch_forks);
    atomic_fetch_add_explicit(&exhaustion.entered, 1, memory_order_seq_cst);
}

void weft__fd_exhaustion_leave(void)
{
    atomic_fetch_sub_explicit(&exhaustion.entered, 1, memory_order_relaxed);
}

uint64_t weft__fd_exhaustion_close_count(void)
{
    return atomic_load_explicit(&exhaustion.close_count, memory_order_relaxed);
}

int weft__fd_exhaustion_wait(uint64_t closed, int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node node;
    weft__node_init(&node, &waiter, 0);
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    weft__lock(&exhaustion.lock);
    bool wait = weft__fd_exhaustion_close_count() == closed;
    if (wait) {
        weft__waitlist_push(&exhaustion.waiters, &node);
    }
    weft__unlock(&exhaustion.lock);
    if (!wait) {
        return weft__waiter_end_by(weft__waiter_disarm(&waiter), &exhaustion_kind, 0);
    }
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &exhaustion_kind, 0);
    if (weft__reason_is_done(reason)) {
        return 0;
    }
    weft__lock(&exhaustion.lock);
    if (node.linked) {
        weft__waitlist_remove(&exhaustion.waiters, &node);
    }
    weft__unlock(&exhaustion.lock);
    return weft__reason_errno(reason);
}

/* One freed number wakes one waiter; waiters whose wait has ended already are skipped. */
void weft__fd_exhaustion_notify(void)
{
    if (atomic_load_explicit(&exhaustion.entered, memory_order_seq_cst) == 0) {
        return;
    }
    struct weft__chain ready;
    struct weft__node *node;
    weft__chain_init(&ready);
    weft__lock(&exhaustion.lock);
    atomic_store_explicit(&exhaustion.close_count, weft__fd_exhaustion_close_count() + 1,
                          memory_order_relaxed);
    while ((node = weft__waitlist_pop(&exhaustion.waiters)) &&
           !weft__node_fire(node, NULL, 0, &ready)) {
    }
    weft__unlock(&exhaustion.lock);
    weft__place_all(&ready, WEFT__FRONT);
}
