#include "wait/waiter.h"

#include <errno.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/objname.h"
#include "context/sanitizer.h"
#include "idle/parker.h"
#include "idle/spin.h"
#include "lock/futex.h"
#include "task/deadline.h"
#include "task/ident.h"
#include "wait/wake_source.h"
#include "worker/perf.h"
#include "worker/worker.h"

/* Not a reason: a plain thread sleeps, or is about to, and must be woken. */
#define ASLEEP UINT32_MAX

/* Under the wheel's lock, so that the node still exists: the end of the wait takes that lock,
 * unless this call fired the wait. */
static void deadline_expire(struct weft__timer *timer, void *arg)
{
    struct weft__deadline *deadline = (struct weft__deadline *)(void *)timer;
    struct weft__task *task = deadline->task;
    struct weft__chain *ready = arg;
    /* After the fire the node belongs to the waiter again. */
    if (weft__task_fire(task, deadline->ticket, WEFT__REASON_TIMEOUT) == WEFT__FIRE_ENQUEUE) {
        weft__chain_push(ready, &task->link);
    }
}

void weft__deadline_begin(struct weft__deadline *node, struct weft__wheel *wheel,
                          struct weft__task *task, uint64_t ticket, int64_t deadline)
{
    node->task = task;
    node->ticket = ticket;
    node->wheel = wheel;
    weft__timer_init(&node->timer, task->flags & WEFT__TASK_GROUPED ? weft__group_deadline_expire
                                                                    : deadline_expire);
    weft__wheel_add(wheel, &node->timer, deadline);
}

void weft__waiter_arm_thread(struct weft__waiter *waiter)
{
    waiter->task = NULL;
    waiter->parker = NULL;
    waiter->notify = NULL;
    atomic_init(&waiter->word, 0);
}

void weft__waiter_arm_worker(struct weft__waiter *waiter, struct weft__parker *parker,
                             _Atomic(uint32_t) *visitors)
{
    weft__waiter_arm_thread(waiter);
    waiter->parker = parker;
    waiter->visitors = visitors;
}

void weft__waiter_arm_notify(struct weft__waiter *waiter,
                             void (*notify)(struct weft__waiter *waiter))
{
    weft__waiter_arm_thread(waiter);
    waiter->notify = notify;
}

static bool fire_word(_Atomic(uint32_t) *word, enum weft__reason reason)
{
    uint32_t waiting = 0;
    return atomic_compare_exchange_strong_explicit(
        word, &waiting, reason, memory_order_seq_cst, /* pairs: should_exit, park */
        memory_order_relaxed);
}

/* The thread may leave as soon as the word is set, and its pool may be destroyed: the visitor
 * count keeps the parker alive. */
static bool fire_worker(struct weft__waiter *waiter, enum weft__reason reason)
{
    struct weft__parker *parker = waiter->parker;
    _Atomic(uint32_t) *visitors = waiter->visitors;
    atomic_fetch_add_explicit(visitors, 1, memory_order_relaxed);
    bool won = fire_word(&waiter->word, reason);
    if (won) {
        WEFT__STEP();
        weft__parker_wake(parker);
    }
    atomic_fetch_sub_explicit(visitors, 1, memory_order_release); /* pairs: weft_pool_destroy */
    return won;
}

static bool fire_notify(struct weft__waiter *waiter, enum weft__reason reason)
{
    void (*notify)(struct weft__waiter *) = waiter->notify;
    bool won = fire_word(&waiter->word, reason);
    if (won) {
        notify(waiter);
    }
    return won;
}

/* A thread that has not gone to sleep yet finds the reason itself and is not woken, which saves a
 * system call. A sleeping thread sleeps until it is fired, by this function or by its deadline. */
static bool fire_plain(_Atomic(uint32_t) *word, enum weft__reason reason)
{
    uint32_t asleep = ASLEEP;
    if (fire_word(word, reason)) {
        return true;
    }
    bool won = atomic_compare_exchange_strong_explicit(word, &asleep, reason,
                                                       memory_order_seq_cst, /* pairs: sleep_on */
                                                       memory_order_relaxed);
    if (won) {
        /* The word may be freed by now. A futex wake on other memory harms no one: futex waiters
         * loop. */
        weft__san_suppress();
        weft__futex_wake(word, 1);
        weft__san_unsuppress();
    }
    return won;
}

bool weft__waiter_fire_thread(struct weft__waiter *waiter, enum weft__reason reason)
{
    if (waiter->parker) {
        return fire_worker(waiter, reason);
    }
    if (waiter->notify) {
        return fire_notify(waiter, reason);
    }
    return fire_plain(&waiter->word, reason);
}

enum weft__reason weft__waiter_disarm(struct weft__waiter *waiter)
{
    if (waiter->task) {
        return weft__task_disarm(waiter->task);
    }
    uint32_t reason = 0;
    /* From now on the waiter counts as fired. Acquire: pairs with fire_word */
    atomic_compare_exchange_strong_explicit(&waiter->word, &reason, WEFT__REASON_TIMEOUT,
                                            memory_order_acquire, memory_order_acquire);
    return (enum weft__reason)reason;
}

void weft__waiter_defer(enum weft__reason reason)
{
    if (reason == WEFT__REASON_INTERRUPT) {
        weft_fiber_interrupt(weft_self());
    }
}

int weft__waiter_end_by(enum weft__reason reason, const struct weft__wait_kind *kind, uint64_t on)
{
    if (reason != WEFT__REASON_NONE) { /* a fiber's: nothing ends a thread's wait so */
        weft__waiter_record_end(weft__current(weft__worker_self()),
                                &(struct weft__wait_note){.kind = kind, .on = on}, reason);
    }
    return weft__reason_errno(reason);
}

static void check_may_sleep(int64_t now, int64_t deadline)
{
    const struct weft__worker *w = weft__worker_self();
    WEFT__REQUIRE(!w || weft__current(w) || deadline <= now,
                  weft__running(w) ? "a frame waits in the middle of a step"
                                   : "a callback on a worker waits");
}

/* Sleeps until the word has a reason, which may be the deadline. */
static enum weft__reason sleep_on(_Atomic(uint32_t) *word, int64_t deadline)
{
    uint32_t seen = 0;
    if (!atomic_compare_exchange_strong_explicit(word, &seen, ASLEEP, memory_order_acquire,
                                                 memory_order_acquire)) { /* pairs: fire_word */
        return (enum weft__reason)seen;
    }
    do {
        WEFT__STEP();
        if (weft__futex_wait(word, ASLEEP, deadline) == -ETIMEDOUT) {
            seen = ASLEEP;
            if (atomic_compare_exchange_strong_explicit(word, &seen, WEFT__REASON_TIMEOUT,
                                                        memory_order_acquire,
                                                        memory_order_acquire)) {
                return WEFT__REASON_TIMEOUT;
            }
        }
        seen = atomic_load_explicit(word, memory_order_acquire); /* pairs: fire_plain */
    } while (seen == ASLEEP);
    return (enum weft__reason)seen;
}

/* Without a deadline the thread cannot act until it is fired, so it can be part of a deadlock. */
static enum weft__reason sleep_forever(_Atomic(uint32_t) *word, const struct weft__wait_kind *kind,
                                       uint64_t on)
{
    struct weft__thread_wait wait = {.word = word, .asleep = ASLEEP, .kind = kind, .on = on};
    weft__thread_wait_begin(&wait);
    enum weft__reason reason = sleep_on(word, WEFT_FOREVER);
    weft__thread_wait_end(&wait);
    return reason;
}

static enum weft__reason sleep_thread(struct weft__waiter *waiter, int64_t deadline,
                                      const struct weft__wait_kind *kind, uint64_t on)
{
    uint32_t reason = atomic_load_explicit(&waiter->word, memory_order_acquire);
    if (reason) { /* pairs: fire_word */
        return (enum weft__reason)reason;
    }
    int64_t began = weft__clock_ns();
    check_may_sleep(began, deadline);
    if (weft__spin_thread(&waiter->word, began, deadline)) {
        return (enum weft__reason)atomic_load_explicit(&waiter->word, memory_order_acquire);
    }
    reason = deadline == WEFT_FOREVER ? sleep_forever(&waiter->word, kind, on)
                                      : sleep_on(&waiter->word, deadline);
    if (weft__reason_is_done((enum weft__reason)reason)) {
        weft__spin_thread_slept(weft__clock_ns() - began);
    }
    return (enum weft__reason)reason;
}

/* Workers measure the waits of fibers: weft__worker_suspend. */
enum weft__reason weft__waiter_park_thread(struct weft__waiter *waiter, int64_t deadline,
                                           const struct weft__wait_kind *kind, uint64_t on)
{
    weft__deadline_check(deadline);
    int64_t began = weft__perf_is_on(WEFT_PERF_ACQUIRE) ? weft__clock_ns() : 0;
    enum weft__reason reason = sleep_thread(waiter, deadline, kind, on);
    if (__builtin_expect(began != 0, 0)) {
        weft__perf_emit(WEFT_PERF_ACQUIRE, weft__clock_ns() - began, 1, 0);
    }
    return reason;
}

/* Under the ident lock: without it, the flag may belong to an interrupt that ended the last wait
 * and has not taken the flag back yet. The task may have continued, and its slot may hold another
 * fiber by now: then the fire fails, and the other fiber keeps its flag. */
static enum weft__fire deliver_interrupt(struct weft__task *task, uint64_t ticket)
{
    uint64_t ident;
    enum weft__fire fire = WEFT__FIRE_LOST;
    if (weft__ident_lock(task, weft__task_handle(task) >> 32, 0, &ident)) {
        if (ident & WEFT__IDENT_INTERRUPT) {
            fire = weft__task_fire(task, ticket, WEFT__REASON_INTERRUPT);
        }
        if (fire != WEFT__FIRE_LOST) {
            ident &= ~(uint64_t)WEFT__IDENT_INTERRUPT;
        }
        weft__ident_unlock(task, ident);
    }
    return fire;
}

/* Ends this wait because of the flags, if they may end it. */
static enum weft__fire end_by_flags(struct weft__task *task, uint64_t ticket, unsigned kind,
                                    uint64_t flags)
{
    if (((flags & WEFT__IDENT_ABORT) && !(kind & WEFT__WAIT_UNABORTABLE)) ||
        ((flags & WEFT__IDENT_CANCEL) && !(kind & WEFT__WAIT_SHIELDED))) {
        return weft__task_fire(task, ticket, WEFT__REASON_CANCEL);
    }
    if ((flags & WEFT__IDENT_INTERRUPT) && !(kind & WEFT__WAIT_SHIELDED)) {
        return deliver_interrupt(task, ticket);
    }
    return WEFT__FIRE_LOST;
}

bool weft__waiter_end_settled(struct weft__task *task, uint64_t armed, uint64_t flags)
{
    return end_by_flags(task, armed >> WEFT__TICKET_SHIFT, (unsigned)weft__word_reason(armed),
                        flags) == WEFT__FIRE_ENQUEUE;
}

void weft__waiter_check_flags(struct weft__task *task)
{
    uint64_t ticket;
    unsigned kind;
    if (weft__task_ticket(task, &ticket, &kind)) {
        end_by_flags(task, ticket, kind, weft__ident_flags(task));
    }
}

/* With a deadline: the node is in the wheel of the worker on which the wait began, and returns to
 * the free list of the worker on which it ends. */
static void suspend_until(struct weft__task *task, uint64_t ticket, struct weft__worker *w,
                          int64_t deadline)
{
    if (deadline == WEFT_FOREVER) {
        weft__worker_suspend(w, WEFT__POST_PARK);
        return;
    }
    struct weft__wheel *wheel = &w->wheel;
    struct weft__deadline here, *taken = weft__deadline_take(&w->deadlines);
    struct weft__deadline *node = taken ? taken : &here;
    weft__deadline_begin(node, wheel, task, ticket, deadline);
    weft__worker_suspend(w, WEFT__POST_PARK);
    if (weft__task_reason(task) != WEFT__REASON_TIMEOUT) {
        weft__wheel_cancel(wheel, &node->timer);
    }
    if (taken) {
        weft__deadline_give(&weft__worker_self()->deadlines, taken);
    }
}

struct weft__ended weft__ended_describe(const struct weft__wait_kind *kind, uint64_t on,
                                        unsigned others)
{
    struct weft__ended out = {.kind = kind, .others = others};
    out.on = kind->first ? kind->first(on, &out.others) : on;
    const char *label = kind->label && out.on ? kind->label(out.on) : NULL;
    if (kind->fiber) {
        weft_fiber_name(out.on, out.name, sizeof out.name);
    } else if (kind->descriptor) {
        snprintf(out.name, sizeof out.name, "fd %d", (int)out.on);
    } else if (label) {
        weft__objname_truncate(out.name, sizeof out.name, label);
    }
    return out;
}

void weft__ended_format(const struct weft__ended *ended, char *buf, size_t size)
{
    int n =
        snprintf(buf, size, "%s%s%s", ended->kind->name, ended->name[0] ? " " : "", ended->name);
    if (ended->others && n > 0 && (size_t)n < size) {
        snprintf(buf + n, size - (size_t)n, " and %u other%s", ended->others,
                 ended->others > 1 ? "s" : "");
    }
}

void weft__waiter_record_end(struct weft__task *task, const struct weft__wait_note *note,
                             enum weft__reason reason)
{
    if (reason == WEFT__REASON_CANCEL || reason == WEFT__REASON_INTERRUPT) {
        weft__task_rare(task)->ended = weft__ended_describe(note->kind, note->on, 0);
    }
}

/* Before the task has parked: the task finds out itself who fired first. */
static void fire_own(struct weft__task *task, uint64_t ticket, enum weft__reason reason)
{
    enum weft__fire fire = weft__task_fire(task, ticket, reason);
    WEFT__DEBUG_ASSERT(fire != WEFT__FIRE_ENQUEUE);
    (void)fire;
}

enum weft__reason weft__waiter_park_until(struct weft__task *task, uint64_t ticket,
                                          struct weft__worker *w, int64_t deadline,
                                          const struct weft__wait_kind *kind, uint64_t on)
{
    weft__deadline_check(deadline);
    if (deadline != 0) {
        weft__waiter_check_flags(task); /* otherwise the call only tries */
    }
    if (deadline != WEFT_FOREVER && deadline <= weft__clock_ns()) {
        fire_own(task, ticket, WEFT__REASON_TIMEOUT);
    }
    struct weft__wait_note note = {.kind = kind, .on = on, .since = w->now};
    enum weft__reason reason;
    if (weft__task_is_fired(task)) {
        reason = weft__task_disarm(task);
    } else {
        task->note = &note;
        suspend_until(task, ticket, w, deadline);
        reason = weft__task_reason(task);
    }
    weft__waiter_record_end(task, &note, reason);
    return reason;
}

int weft__reason_errno(enum weft__reason reason)
{
    switch (reason) {
    case WEFT__REASON_TIMEOUT:
        return -ETIMEDOUT;
    case WEFT__REASON_CANCEL:
        return -ECANCELED;
    case WEFT__REASON_INTERRUPT:
        return -EINTR;
    case WEFT__REASON_NONE:
    case WEFT__REASON_DONE:
        break;
    }
    return 0;
}
