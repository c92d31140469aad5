/* A body: a task without a stack. A frame fiber is one, and so is an actor.
 *
 * It runs by being called, on its worker's base context, and goes on by returning. While a step
 * runs the worker has a body and no current fiber: calls that wait cannot be made there, which they
 * say themselves. It waits as a fiber does, by arm, settle and fire of the state word; the step
 * arms, links its nodes, and returns WAIT. What a fiber has on its stack a body has in memory of
 * its own; the control block has room for one pointer to it, and for the claim that its nodes point
 * to.
 */
#ifndef WEFT_SCHED_BODY_H
#define WEFT_SCHED_BODY_H

#include "sched/spawn.h"
#include "sched/waiter.h"
#include "sched/worker.h"

/* How a step ended. */
enum weft__body_step {
    WEFT__BODY_GONE,  /* it has settled a wait itself: it may run elsewhere by now */
    WEFT__BODY_END,   /* it has given itself up: weft__body_end */
    WEFT__BODY_WAIT,  /* it has armed a wait */
    WEFT__BODY_YIELD, /* it goes on behind the others */
};

/* What a body waits for, for those who look from outside. */
struct weft__body_wait {
    const struct weft__wait_kind *kind; /* NULL: it does not say */
    uint64_t on;
    int64_t since;   /* 0: nobody knows */
    unsigned others; /* it waits on so many more */
};

/* One of its frames, for those who look from outside; texts that are never freed. */
struct weft__body_frame {
    const char *frame, *step, *file; /* step and file may be NULL */
    unsigned line;
};

/* One static record for all bodies of a kind. */
struct weft__body_kind {
    const char *what; /* "frame fiber" */
    enum weft__body_step (*step)(struct weft__worker *w, struct weft__task *task);
    /* These are called while the body is held where it waits; must not block. `trace`: its frames
     * as pairs of pointers to static records, innermost first; how many pointers there are, at most
     * `max`. `describe` says what such a pair is, at any time later. */
    const char *(*name)(const struct weft__task *task);
    struct weft__body_wait (*waits)(const struct weft__task *task);
    int (*trace)(const struct weft__task *task, void **out, int max);
    struct weft__body_frame (*describe)(void *const *pair);
    /* By its own step. What a cancel or an interrupt has ended, without a kind if nothing; the
     * scope whose child it is, NULL: of none; it is about to end, with this status. */
    struct weft__ended (*ended)(const struct weft__task *task);
    struct weft__scope *(*scope)(const struct weft__task *task);
    void (*leaves)(struct weft__task *task, int status);
    /* Who it is, for the report of a fault in its own step: up to `size` bytes, how many;
     * async-signal-safe. NULL: its name and handle. */
    size_t (*blame)(const struct weft__task *task, char *buf, size_t size);
    /* It holds locks from one step to the next, as a fiber does: the task's `held` lists them, and
     * whoever ends it calls weft__held_forsake. False: a lock that a step takes is the worker
     * thread's, and the same step gives it back. */
    bool holds;
};

struct weft__body_opts {
    const char *name;
    bool detached;
    struct weft__member member; /* in a dispatcher's pool */
    bool like_maker;            /* or that of the fiber that makes it */
    struct weft__node *joiner;  /* told when it has ended; with it nobody else may join */
};

/* Spawns a body in the pool; `own` is its own. *out may be NULL: then nobody can join it. 0, or
 * what weft_pool_spawn answers. */
int weft__body_spawn(weft_pool *pool, weft_fiber *out, const struct weft__body_kind *kind,
                     void *own, const struct weft__body_opts *opts);

/* The same in two steps, on one thread and without a wait in between: until start nobody sees it,
 * and it can be taken back. NULL: *err says why. */
struct weft__task *weft__body_make(weft_pool *pool, const struct weft__body_kind *kind, void *own,
                                   const struct weft__body_opts *opts, int *err);
void weft__body_start(struct weft__task *task, weft_fiber *out, bool joinable);
void weft__body_unmake(struct weft__task *task);

/* By its maker, or by its step. Not a plain store: a worker that thinks it is about to run the
 * task, or the fiber that was there before, prefetches what is in this place (sched/switch.h). */
static inline void weft__body_set_own(struct weft__task *task, void *own)
{
#ifdef WEFT_EXPLORE /* which has no prefetches, and no atomics but its own */
    task->own = own;
#else
    __atomic_store_n(&task->own, own, __ATOMIC_RELAXED);
#endif
}

/* By anybody who compares it with what is his. */
static inline void *weft__body_own(const struct weft__task *task)
{
    return __atomic_load_n(&task->own, __ATOMIC_RELAXED);
}

/* Asks for what its step looks at first; of a fiber with a stack, for the end of that, which is in
 * the same place. */
static inline void weft__body_prefetch(const struct weft__task *task)
{
    __builtin_prefetch(task->own);
    __builtin_prefetch((const char *)task->own + 48); /* frames are no whole lines */
}

/* From its step, which then returns END: joiners get the value, or the status if it is not 0. */
void weft__body_end(struct weft__worker *w, struct weft__task *task, void *value, int status);

/* Runs one step. On the base context. */
void weft__body_run(struct weft__worker *w, struct weft__task *task);

/* Its step runs here. */
static inline void weft__body_steps_on(struct weft__worker *w, struct weft__task *task)
{
    atomic_store_explicit(&w->body, task, memory_order_relaxed);
}

/* The same in parts, for whoever runs many: one step after another, and that the last is over. */
static inline enum weft__body_step weft__body_step(struct weft__worker *w, struct weft__task *task)
{
    weft__task_run(task);
    WEFT__TRACE(w, WEFT__TRACE_RUN, weft__task_handle(task));
    weft__body_steps_on(w, task);
    return task->body->step(w, task);
}

static inline void weft__body_steps_over(struct weft__worker *w)
{
    atomic_store_explicit(&w->body, NULL, memory_order_relaxed);
}

/* What a task waits for, body or not; while it is held. */
static inline struct weft__body_wait weft__task_waits(const struct weft__task *task)
{
    if (weft__task_is_body(task)) {
        return task->body->waits(task);
    }
    const struct weft__note *note = task->note;
    struct weft__body_wait wait = {.kind = note->kind, .on = note->on, .since = note->since};
    if (note->kind) {
        wait.on = weft__wait_first(note->kind, note->on, &wait.others);
    }
    return wait;
}

/* A word for those who look at it from outside, from before its start to its end: a literal, or
 * NULL. */
static inline void weft__body_note(struct weft__task *task, const char *note)
{
    __atomic_store_n(&task->value, (void *)(uintptr_t)note, __ATOMIC_RELAXED);
}
static inline const char *weft__body_noted(const struct weft__task *task)
{
    return __atomic_load_n(&task->value, __ATOMIC_RELAXED);
}

/* --- a body's wait -------------------------------------------------------------------- */

/* The waiter for its nodes. Only what a task's waiter needs is there: the claim. */
static inline struct weft__waiter *weft__body_waiter(struct weft__task *task)
{
    return (struct weft__waiter *)(void *)&task->claim;
}

/* Begins a wait; `kind`: enum weft__wait. */
static inline void weft__body_arm(struct weft__task *task, unsigned kind)
{
    task->claim.ticket = __builtin_expect(task->shields > 0, 0)
                             ? weft__task_arm(task, kind | WEFT__WAIT_SHIELDED)
                             : weft__task_arm(task, kind);
}

/* Without a deadline, also of the last wait, and, as far as is known, without a cancel or an
 * interrupt. */
static inline bool weft__body_is_plain(const struct weft__task *task, int64_t deadline)
{
    return deadline == WEFT_FOREVER && !task->deadline &&
           __builtin_expect(!(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS), 1);
}

/* When it is not. */
bool weft__body_park_any(struct weft__worker *w, struct weft__task *task, int64_t deadline);
/* After its nodes are linked: the deadline, and a cancel or an interrupt that is there already.
 * False: the wait is over, and weft__body_waited says why. -ENOMEM is a wait that is over by
 * WEFT__REASON_NONE. */
static inline bool weft__body_park(struct weft__worker *w, struct weft__task *task,
                                   int64_t deadline)
{
    return weft__body_is_plain(task, deadline) ? !weft__task_fired(task)
                                               : weft__body_park_any(w, task, deadline);
}

/* Of one that was not parked, or has a deadline. */
enum weft__reason weft__body_waited_any(struct weft__worker *w, struct weft__task *task);
/* Of one that ends. */
void weft__body_drop_deadline(struct weft__worker *w, struct weft__task *task);

/* When the step is called again, or park was refused: why the wait has ended. The nodes are still
 * to be unlinked. */
static inline enum weft__reason weft__body_waited(struct weft__worker *w, struct weft__task *task)
{
    if (task->deadline || weft__task_state(task) != WEFT__TASK_RUNNING) {
        return weft__body_waited_any(w, task);
    }
    return weft__task_reason(task);
}

#endif
