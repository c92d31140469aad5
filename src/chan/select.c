#include "chan/select.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "chan/chan.h"
#include "future/future.h"
#include "sync/cond.h"
#include "sync/event.h"
#include "sync/mutex.h"

#define NODES_ON_STACK 8

/* Describes what a select waits on, for dumps; on the waiter's stack. */
struct wait_set {
    const struct weft_case *cases;
    size_t n;
};

uint64_t weft__select_first(const struct weft_case *cases, size_t n, unsigned *others)
{
    const void *first = NULL;
    unsigned count = 0;
    for (size_t i = 0; i < n; i++) {
        first = first ? first : cases[i].object;
        count += cases[i].object || cases[i].kind == WEFT_CASE_AT; /* otherwise the case is never
                                                                    * ready */
    }
    *others = count ? count - 1 : 0;
    return (uint64_t)(uintptr_t)first;
}

static uint64_t first_of(uint64_t on, unsigned *others)
{
    const struct wait_set *wait_set = (const struct wait_set *)(uintptr_t)on;
    return weft__select_first(wait_set->cases, wait_set->n, others);
}

/* Every object begins with a source. */
static const struct weft__wait_kind select_kind = {
    .name = "select", .label = weft__source_label, .first = first_of};

/* --- the kinds of cases ------------------------------------------------------------ */

static bool complete_case(struct weft_case *one, int status)
{
    if (status == -EAGAIN) {
        return false;
    }
    one->status = status;
    return true;
}

static bool take_send(struct weft_case *one)
{
    return complete_case(one, weft__chan_try_send(one->object, one->item));
}

static bool arm_send(struct weft_case *one, struct weft__node *node)
{
    return weft__chan_arm_send(one->object, node);
}

/* The item was read before the node was fired. */
static void finish_send(struct weft_case *one, struct weft__node *node, bool won)
{
    if (!won) {
        weft__chan_finish_send(one->object, node);
    }
}

static bool take_recv(struct weft_case *one)
{
    return weft__chan_can_recv(one->object) &&
           complete_case(one, weft__chan_try_recv(one->object, one->item));
}

static bool arm_recv(struct weft_case *one, struct weft__node *node)
{
    return weft__chan_arm_recv(one->object, node);
}

/* Also if the node has won: the item is written after the fire, under the latch. */
static void finish_recv(struct weft_case *one, struct weft__node *node, bool won)
{
    (void)won;
    weft__chan_finish_recv(one->object, node);
}

static bool take_event(struct weft_case *one)
{
    return complete_case(one, weft_event_is_set(one->object) ? 0 : -EAGAIN);
}

static bool arm_event(struct weft_case *one, struct weft__node *node)
{
    return weft__event_arm(weft__event_of(one->object), node);
}

static void finish_event(struct weft_case *one, struct weft__node *node, bool won)
{
    if (!won) {
        weft__event_finish(weft__event_of(one->object), node);
    }
}

static bool take_future(struct weft_case *one)
{
    return complete_case(one, weft_future_is_done(one->object) ? 0 : -EAGAIN);
}

static bool arm_future(struct weft_case *one, struct weft__node *node)
{
    return weft__future_arm(one->object, node);
}

static void finish_future(struct weft_case *one, struct weft__node *node, bool won)
{
    if (!won) {
        weft__future_finish(one->object, node);
    }
}

/* A condition stores no signal. */
static bool arm_cond(struct weft_case *one, struct weft__node *node)
{
    WEFT__REQUIRE(!one->item || weft__mutex_is_mine(one->item),
                  "a condition is selected with a mutex that the caller does not hold");
    weft__cond_arm(weft__cond_of(one->object), node);
    return true;
}

static void finish_cond(struct weft_case *one, struct weft__node *node, bool won)
{
    if (!won) {
        weft__cond_finish(weft__cond_of(one->object), node);
    }
}

/* A time case has no node: the deadline of the wait is the earliest of them. */
static bool take_at(struct weft_case *one)
{
    return complete_case(one, one->at <= weft__clock_ns() ? 0 : -EAGAIN);
}

static bool arm_none(struct weft_case *one, struct weft__node *node)
{
    (void)one;
    (void)node;
    return true;
}

static void finish_none(struct weft_case *one, struct weft__node *node, bool won)
{
    (void)one;
    (void)node;
    (void)won;
}

static bool take_never(struct weft_case *one)
{
    (void)one;
    return false;
}

static const struct weft__case_ops kinds[] = {
    [WEFT_CASE_SEND] = {take_send, arm_send, finish_send},
    [WEFT_CASE_RECV] = {take_recv, arm_recv, finish_recv},
    [WEFT_CASE_EVENT] = {take_event, arm_event, finish_event},
    [WEFT_CASE_FUTURE] = {take_future, arm_future, finish_future},
    [WEFT_CASE_COND] = {take_never, arm_cond, finish_cond},
    [WEFT_CASE_AT] = {take_at, arm_none, finish_none},
};

const struct weft__case_ops *weft__case_ops_of(const struct weft_case *one)
{
    static const struct weft__case_ops never = {take_never, arm_none, finish_none};
    if (!one->object && one->kind != WEFT_CASE_AT) {
        return &never;
    }
    WEFT__REQUIRE((unsigned)one->kind < sizeof kinds / sizeof *kinds,
                  "weft_select: unknown case kind %d", (int)one->kind);
    return &kinds[one->kind];
}

/* --- select ------------------------------------------------------------------------- */

/* A pseudo-random number; consecutive selects get different ones. */
static uint32_t random_number(void)
{
    static _Atomic(uint32_t) turns;
    struct weft__worker *w = weft__worker_self();
    return w ? weft__rand_next(&w->rand)
             : atomic_fetch_add_explicit(&turns, 0x9e3779b9u, memory_order_relaxed);
}

/* The index of the case that was performed, or -1. Every ready case has a chance: the scan starts
 * at a random case and runs in a random direction, so that ready cases next to cases that are not
 * ready are not preferred. */
int weft__select_take(struct weft_case *cases, size_t n)
{
    uint32_t dice = random_number();
    size_t step = dice >> 31 ? n - 1 : 1;
    size_t i = n ? (size_t)(((uint64_t)(dice & 0x7fffffff) * n) >> 31) : 0;
    for (size_t k = 0; k < n; k++) {
        if (weft__case_ops_of(&cases[i])->take(&cases[i])) {
            return (int)i;
        }
        i += step;
        i -= i >= n ? n : 0;
    }
    return -1;
}

/* Links nodes until a case need not wait. Returns the index of that case, or n. */
static size_t arm_all(struct weft_case *cases, size_t n, struct weft__node *nodes,
                      struct weft__waiter *waiter)
{
    size_t i = 0;
    for (; i < n; i++) {
        weft__node_init(&nodes[i], waiter, (unsigned)i);
        nodes[i].item = cases[i].item;
        nodes[i].shared = true;
        if (!weft__case_ops_of(&cases[i])->arm(&cases[i], &nodes[i])) {
            break;
        }
    }
    return i;
}

/* The earliest time case; -1: there is none. */
static int earliest(const struct weft_case *cases, size_t n)
{
    int first = -1;
    for (size_t i = 0; i < n; i++) {
        if (cases[i].kind == WEFT_CASE_AT && (first < 0 || cases[i].at < cases[first].at)) {
            first = (int)i;
        }
    }
    return first;
}

/* The mutex of a condition case, unless an earlier case has the same one. */
static weft_mutex *mutex_of(const struct weft_case *cases, size_t which)
{
    if (cases[which].kind != WEFT_CASE_COND || !cases[which].object) {
        return NULL;
    }
    for (size_t i = 0; i < which; i++) {
        if (cases[i].kind == WEFT_CASE_COND && cases[i].object &&
            cases[i].item == cases[which].item) {
            return NULL;
        }
    }
    return cases[which].item;
}

static void unlock_all(const struct weft_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weft_mutex *mutex = mutex_of(cases, i);
        if (mutex) {
            weft_mutex_unlock(mutex);
        }
    }
}

static void lock_all(const struct weft_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weft_mutex *mutex = mutex_of(cases, i);
        if (mutex) {
            weft__mutex_lock_uninterruptible(weft__mutex_of(mutex));
        }
    }
}

int weft__select_timer(const struct weft_case *cases, size_t n, int64_t deadline)
{
    int timer = earliest(cases, n);
    return timer >= 0 && cases[timer].at <= deadline ? timer : -1;
}

/* Step 4, and the result: the wait of the first `armed` cases has ended for this reason. */
static int finish_all(struct weft_case *cases, struct weft__node *nodes, size_t armed, int timer,
                      enum weft__reason reason)
{
    size_t winner = weft__reason_is_done(reason) ? weft__reason_index(reason) : armed;
    for (size_t i = 0; i < armed; i++) {
        weft__case_ops_of(&cases[i])->finish(&cases[i], &nodes[i], i == winner);
    }
    if (winner < armed) {
        cases[winner].status = nodes[winner].status;
        return (int)winner;
    }
    if (reason == WEFT__REASON_TIMEOUT && timer >= 0) {
        cases[timer].status = 0;
        return timer;
    }
    return reason == WEFT__REASON_NONE ? -EAGAIN : weft__reason_errno(reason);
}

/* For a wait that was disarmed because the case after the armed ones need not wait. -EAGAIN:
 * another thread was faster at that case, and nothing was performed. */
static int finish_early(struct weft_case *cases, struct weft__node *nodes, size_t armed, int timer,
                        enum weft__reason reason)
{
    int done = finish_all(cases, nodes, armed, timer, reason);
    return done == -EAGAIN && weft__case_ops_of(&cases[armed])->take(&cases[armed]) ? (int)armed
                                                                                    : done;
}

/* One round of steps 2 to 5. -EAGAIN: another round is needed. */
static int wait_once(struct weft_case *cases, size_t n, struct weft__node *nodes,
                     struct weft__waiter *waiter, int64_t deadline)
{
    int timer = weft__select_timer(cases, n, deadline);
    weft__waiter_arm(waiter, WEFT__WAIT_OBJECT);
    size_t armed = arm_all(cases, n, nodes, waiter);
    if (armed < n) {
        return finish_early(cases, nodes, armed, timer, weft__waiter_disarm(waiter));
    }
    unlock_all(cases, n);
    const struct wait_set wait_set = {.cases = cases, .n = n};
    enum weft__reason reason = weft__waiter_park(waiter, timer >= 0 ? cases[timer].at : deadline,
                                                 &select_kind, (uint64_t)(uintptr_t)&wait_set);
    int done = finish_all(cases, nodes, n, timer, reason);
    lock_all(cases, n);
    return done;
}

int weft_select(struct weft_case *cases, size_t n, int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node few[NODES_ON_STACK], *nodes = few;
    int done = weft__select_take(cases, n);
    if (done >= 0 || deadline <= 0) {
        return done >= 0 ? done : -ETIMEDOUT;
    }
    WEFT__REQUIRE(n <= WEFT_SELECT_MAX, "weft_select: %zu cases are too many", n);
    if (n > NODES_ON_STACK && !(nodes = weft__alloc(n * sizeof *nodes))) {
        return -ENOMEM;
    }
    while ((done = wait_once(cases, n, nodes, &waiter, deadline)) == -EAGAIN &&
           (done = weft__select_take(cases, n)) < 0) {
    }
    if (nodes != few) {
        weft__free(nodes);
    }
    return done;
}

/* --- stackless tasks ----------------------------------------------------------------------- */

enum {
    LINKED = 1,
    FIRED = 2,
};

static void fired(struct weft__waiter *waiter)
{
    struct weft__select *s = (struct weft__select *)(void *)waiter;
    void (*on_done)(struct weft__select *) = s->on_done;
    /* Acquire: what the task did until all nodes were linked. pairs: arm_once */
    if (atomic_fetch_or_explicit(&s->arrivals, FIRED, memory_order_acq_rel) & LINKED) {
        on_done(s);
    }
}

/* A thread that fires while the nodes are being linked also sets its bit in `arrivals`, and must
 * have done so before the select may be reused: so `arrivals` is used in every case except when
 * nothing has fired, also if a case need not wait. */
static int arm_once(struct weft__select *s)
{
    atomic_init(&s->arrivals, 0);
    weft__waiter_arm_notify(&s->waiter, fired);
    s->armed = arm_all(s->cases, s->n, s->nodes, &s->waiter);
    if (s->armed < s->n && weft__waiter_disarm(&s->waiter) == WEFT__REASON_NONE) {
        return finish_early(s->cases, s->nodes, s->armed, s->timer, WEFT__REASON_NONE);
    }
    /* pairs: fired, in both directions. From here on the select belongs to the task, unless it was
     * already fired. */
    if (atomic_fetch_or_explicit(&s->arrivals, LINKED, memory_order_acq_rel) & FIRED) {
        return weft__select_finish(s);
    }
    return -EINPROGRESS;
}

int weft__select_arm(struct weft__select *s, struct weft_case *cases, struct weft__node *nodes,
                     size_t n, int64_t deadline, void (*on_done)(struct weft__select *select))
{
    int done = weft__select_take(cases, n);
    if (done >= 0 || deadline <= 0) {
        return done >= 0 ? done : -ETIMEDOUT;
    }
    WEFT__REQUIRE(n <= WEFT_SELECT_MAX, "weft_select: %zu cases are too many", n);
    for (size_t i = 0; i < n; i++) {
        WEFT__REQUIRE(!mutex_of(cases, i), "a stackless task selects a condition with a mutex");
    }
    s->cases = cases;
    s->nodes = nodes;
    s->n = n;
    s->on_done = on_done;
    s->timer = weft__select_timer(cases, n, deadline);
    s->until = s->timer >= 0 ? cases[s->timer].at : deadline;
    while ((done = arm_once(s)) == -EAGAIN && (done = weft__select_take(cases, n)) < 0) {
    }
    return done;
}

int weft__select_finish(struct weft__select *s)
{
    return finish_all(s->cases, s->nodes, s->armed, s->timer, weft__waiter_reason(&s->waiter));
}
