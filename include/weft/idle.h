/* Idle groups: find which of very many members have been idle for a period, e.g. 100,000
 * connections and 60 seconds.
 *
 * A touch is one store, without a lock, a clock read or a timer; a member costs one check per
 * period, however often it is touched. Members that were idle for a whole period are reported as
 * one batch: never early, and at most one precision step late (plus the delay of the pool's
 * timers).
 *
 * - The group and its members live in the caller's memory and must not move while in use. Every
 *   call may be made from any thread, fiber or callback, except init and deinit, which no other
 *   call may race.
 * - A member belongs to the group from weft_idle_add until either weft_idle_remove returns true or
 *   the member is reported in a batch: exactly one of the two happens, and the code that gets the
 *   member may free it or add it again.
 * - If several threads touch one member at the same time, the touch that began first may win: a
 *   touch counts from the moment its call began.
 */
#ifndef WEFT_IDLE_H
#define WEFT_IDLE_H

#include <sys/types.h>

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_idle_member {
    /* private */
    uint64_t weft_seen;
    struct weft_idle_member *weft_next;
    uint64_t weft_private[2];
} weft_idle_member;

typedef struct weft_idle_group {
    /* private */
    uint64_t weft_step;
    uint64_t weft_private[42];
} weft_idle_group;

struct weft_idle_opts {
    const char *name;  /* for dumps and reports; borrowed; default none */
    weft_pool *pool;   /* runs the checks; default: the calling fiber's; required elsewhere */
    int64_t period_ns; /* default 60 s; WEFT_FOREVER: members never become idle */
    /* At most the period, at least 1/65536 of it. Default 1 s, within these limits. */
    int64_t precision_ns;
    /* Receives each batch, linked by weft_idle_next, on a worker of the pool like a timer callback:
     * it must not wait. Default: batches are kept until weft_idle_wait. */
    void (*on_idle)(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg);
    void *arg;
};

/* Initialise a group in the caller's memory.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit). A plain thread must set
 * opts->pool, otherwise the program stops.
 * Returns 0; -EINVAL for a bad period or precision; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_idle_init(weft_idle_group *group, const struct weft_idle_opts *opts);
/* End a group. The group must have no members, no batch that was not taken, and no waiter in
 * weft_idle_wait; otherwise the program stops.
 * Context: any thread, but not inside on_idle; waits for a running on_idle; not a cancellation
 * point. */
WEFT_API void weft_idle_deinit(weft_idle_group *group);

/* Add a member, which must not be in any group. Counts as a touch.
 * Context: any thread; does not wait. */
WEFT_API void weft_idle_add(weft_idle_group *group, weft_idle_member *member);
/* Remove a member.
 * Returns true if the member was removed and was not in a batch; false if it was reported in a
 * batch or was never added.
 * Context: any thread; does not wait. */
WEFT_API bool weft_idle_remove(weft_idle_group *group, weft_idle_member *member);

/* Record activity of a member. A touch does not bring back a member that was already reported.
 * Context: any thread; does not wait. */
static inline void weft_idle_touch(weft_idle_group *group, weft_idle_member *member)
{
    uint64_t step = __atomic_load_n(&group->weft_step, __ATOMIC_RELAXED);
    __atomic_store_n(&member->weft_seen, step, __ATOMIC_RELAXED);
}

/* Return the next member of a batch, or NULL after the last. Read it before the member is freed or
 * added again.
 * Context: the owner of the batch; does not wait. */
static inline weft_idle_member *weft_idle_next(const weft_idle_member *member)
{
    return member->weft_next;
}

/* Wait until there is a batch, and take everything reported so far. Only for groups without
 * on_idle, otherwise the program stops.
 * first: receives the first member; the others follow by weft_idle_next.
 * Returns the number of members; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API ssize_t weft_idle_wait(weft_idle_group *group, weft_idle_member **first, int64_t deadline);

/* Count the members that were not taken in a batch yet.
 * Returns the number, which may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_idle_count(weft_idle_group *group);

WEFT_END_DECLS
#endif
