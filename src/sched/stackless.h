/* Stackless tasks: tasks without a stack of their own. Frame fibers and actors are stackless
 * tasks.
 *
 * A stackless task runs as a function call (a step) on its worker's base context, and suspends by
 * returning. During a step the worker has a stackless task and no current fiber, so calls that
 * wait are not allowed and check for that themselves. A stackless task waits as a fiber does, by
 * arm, settle and fire of the state word: the step arms the wait, links its nodes, and returns
 * WAIT. What a fiber keeps on its stack, a stackless task keeps in memory of its own; the control
 * block holds one pointer to that memory, and the claim that the task's nodes point to. */
#ifndef WEFT_SCHED_STACKLESS_H
#define WEFT_SCHED_STACKLESS_H

#include "task/spawn.h"
#include "wait/waiter.h"
#include "worker/worker.h"

/* How a step ended. */
enum weft__stackless_step {
    WEFT__STACKLESS_GONE,  /* it has settled a wait itself and may run elsewhere by now */
    WEFT__STACKLESS_END,   /* it has ended: weft__stackless_end */
    WEFT__STACKLESS_WAIT,  /* it has armed a wait */
    WEFT__STACKLESS_YIELD, /* it goes to the back of the queue */
};

/* What a stackless task waits for, for inspection. */
struct weft__wait_info {
    const struct weft__wait_kind *kind; /* NULL: unknown */
    uint64_t on;
    int64_t since;   /* 0: unknown */
    unsigned others; /* number of further objects it waits on */
};

/* One of its frames, for inspection; the strings are never freed. */
struct weft__stackless_frame {
    const char *frame, *step, *file; /* step and file may be NULL */
    unsigned line;
};

/* One static record for all tasks of a kind. */
struct weft__stackless_kind {
    const char *what; /* "frame fiber" */
    enum weft__stackless_step (*step)(struct weft__worker *w, struct weft__task *task);
    /* Called while the task is held in a wait; must not block. `trace`: stores its frames as pairs
     * of pointers to static records, innermost first, at most `max` pointers, and returns their
     * number. `describe` decodes such a pair, at any later time. */
    const char *(*name)(const struct weft__task *task);
    struct weft__wait_info (*waits)(const struct weft__task *task);
    int (*trace)(const struct weft__task *task, void **out, int max);
    struct weft__stackless_frame (*describe)(void *const *pair);
    /* Called by its own step. `ended`: the wait that a cancel or an interrupt ended, with kind
     * NULL if none. `scope`: the scope whose child the task is, or NULL. `on_end`: the task is
     * about to end with this status. */
    struct weft__ended (*ended)(const struct weft__task *task);
    struct weft__scope *(*scope)(const struct weft__task *task);
    void (*on_end)(struct weft__task *task, int status);
    /* Identifies the task in the report of a fault in its own step: writes up to `size` bytes and
     * returns their number; async-signal-safe. NULL: its name and handle are used. */
    size_t (*identify)(const struct weft__task *task, char *buf, size_t size);
    /* The task holds locks from one step to the next, as a fiber does: the task's `held` lists
     * them, and the code that ends the task calls weft__held_abandon. False: the worker thread
     * owns a lock that a step takes, and the same step releases it. */
    bool holds;
};

struct weft__stackless_opts {
    const char *name;
    bool detached;
    bool bound; /* to `worker` of the pool; not in a dispatcher's pool */
    int worker;
    bool is_successor;                /* of the calling fiber, in the same pool, which ends soon */
    struct weft__group_member member; /* in a dispatcher's pool */
    bool inherit_group;               /* or inherit the creating fiber's membership */
    struct weft__node *joiner;        /* notified at its end; excludes any other joiner */
};

/* Spawns a stackless task in the pool; `own` is its data. *out may be NULL: then the task is not
 * joinable. Returns 0, or an error of weft_pool_spawn. */
int weft__stackless_spawn(weft_pool *pool, weft_fiber *out, const struct weft__stackless_kind *kind,
                          void *own, const struct weft__stackless_opts *opts);

/* Spawn in two steps, on one thread and without a wait in between: until start the task is
 * invisible and can be taken back. make returns NULL on error; *err says why. */
struct weft__task *weft__stackless_make(weft_pool *pool, const struct weft__stackless_kind *kind,
                                        void *own, const struct weft__stackless_opts *opts,
                                        int *err);
void weft__stackless_start(struct weft__task *task, weft_fiber *out, bool joinable);
void weft__stackless_unmake(struct weft__task *task);

/* By its creator, or by its step. Not a plain store: a worker that expects to run the task, or the
 * fiber that used the slot before, prefetches from this field (sched/switch.h). */
static inline void weft__stackless_set_data(struct weft__task *task, void *own)
{
#ifdef WEFT_EXPLORE /* which has no prefetches, and no atomics but its own */
    task->own = own;
#else
    __atomic_store_n(&task->own, own, __ATOMIC_RELAXED);
#endif
}

/* By any thread that compares the pointer with its own object. */
static inline void *weft__stackless_data(const struct weft__task *task)
{
    return __atomic_load_n(&task->own, __ATOMIC_RELAXED);
}

/* Prefetches what the step reads first; for a fiber with a stack, the top of its stack, which is
 * in the same field. */
static inline void weft__stackless_prefetch(const struct weft__task *task)
{
    __builtin_prefetch(task->own);
    __builtin_prefetch((const char *)task->own + 48); /* frames are not whole lines */
}

/* From its step, which then returns END: joiners get the value, or the status if that is not 0. */
void weft__stackless_end(struct weft__worker *w, struct weft__task *task, void *value, int status);

/* Runs one step. On the base context. */
void weft__stackless_run(struct weft__worker *w, struct weft__task *task);

/* Marks the task as the one whose step runs on this worker. */
static inline void weft__stackless_set_running(struct weft__worker *w, struct weft__task *task)
{
    atomic_store_explicit(&w->stackless, task, memory_order_relaxed);
}

/* weft__stackless_run in parts, for callers that run many tasks: one step; and, after the last
 * step, clear the mark. */
static inline enum weft__stackless_step weft__stackless_step(struct weft__worker *w,
                                                             struct weft__task *task)
{
    weft__task_run(task);
    WEFT__TRACE(w, WEFT__TRACE_RUN, weft__task_handle(task));
    weft__stackless_set_running(w, task);
    return task->stackless->step(w, task);
}

static inline void weft__stackless_clear_running(struct weft__worker *w)
{
    atomic_store_explicit(&w->stackless, NULL, memory_order_relaxed);
}

/* What a task waits for, stackless or not. The task must be held. */
static inline struct weft__wait_info weft__task_wait_info(const struct weft__task *task)
{
    if (weft__task_is_stackless(task)) {
        return task->stackless->waits(task);
    }
    const struct weft__wait_note *note = task->note;
    struct weft__wait_info wait = {.kind = note->kind, .on = note->on, .since = note->since};
    if (note->kind) {
        wait.on = weft__wait_first(note->kind, note->on, &wait.others);
    }
    return wait;
}

/* A note for inspection, from before its start to its end: a string literal, or NULL. */
static inline void weft__stackless_set_note(struct weft__task *task, const char *note)
{
    __atomic_store_n(&task->value, (void *)(uintptr_t)note, __ATOMIC_RELAXED);
}
static inline const char *weft__stackless_note(const struct weft__task *task)
{
    return __atomic_load_n(&task->value, __ATOMIC_RELAXED);
}

/* --- waits of a stackless task --------------------------------------------------------- */

/* The waiter for its nodes. Only the part that a task's waiter needs exists: the claim. */
static inline struct weft__waiter *weft__stackless_waiter(struct weft__task *task)
{
    return (struct weft__waiter *)(void *)&task->claim;
}

/* Begins a wait; `kind`: enum weft__wait. */
static inline void weft__stackless_arm(struct weft__task *task, unsigned kind)
{
    task->claim.ticket = __builtin_expect(task->shields > 0, 0)
                             ? weft__task_arm(task, kind | WEFT__WAIT_SHIELDED)
                             : weft__task_arm(task, kind);
}

/* No deadline, neither for this wait nor left from the last one, and no cancel or interrupt known
 * so far. */
static inline bool weft__stackless_is_plain(const struct weft__task *task, int64_t deadline)
{
    return deadline == WEFT_FOREVER && !task->deadline &&
           __builtin_expect(!(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS), 1);
}

/* The general case. */
bool weft__stackless_park_any(struct weft__worker *w, struct weft__task *task, int64_t deadline);
/* After the nodes are linked: sets the deadline and checks for a cancel or an interrupt that is
 * already there. False: the wait is over, and weft__stackless_wait_reason returns why. Without
 * memory the wait is over by WEFT__REASON_NONE (-ENOMEM). */
static inline bool weft__stackless_park(struct weft__worker *w, struct weft__task *task,
                                        int64_t deadline)
{
    return weft__stackless_is_plain(task, deadline) ? !weft__task_is_fired(task)
                                                    : weft__stackless_park_any(w, task, deadline);
}

/* For a wait that was not parked or has a deadline. */
enum weft__reason weft__stackless_wait_reason_any(struct weft__worker *w, struct weft__task *task);
/* For a task that ends. */
void weft__stackless_drop_deadline(struct weft__worker *w, struct weft__task *task);

/* When the step is called again, or park returned false: why the wait ended. The nodes must still
 * be unlinked. */
static inline enum weft__reason weft__stackless_wait_reason(struct weft__worker *w,
                                                            struct weft__task *task)
{
    if (task->deadline || weft__task_state(task) != WEFT__TASK_RUNNING) {
        return weft__stackless_wait_reason_any(w, task);
    }
    return weft__task_reason(task);
}

#endif
