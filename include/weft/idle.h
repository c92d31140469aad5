/* Idle groups: which of very many have been silent for a while, such as 100,000 connections and 60
 * seconds.
 *
 * A touch is one store, without a lock, a clock or a timer; a member costs one look per period,
 * however often it is touched. Those that were silent for a whole period come out as one batch:
 * never early, and at most one precision step late (and what the pool is late with its timers).
 *
 *  - Group and members live in the caller's memory, and are not moved while in use. Every call may
 *    be made from any thread, fiber or callback, but for init and deinit, which nothing may race.
 *  - A member belongs to the group from weft_idle_add until weft_idle_remove answers true or it
 *    comes out in a batch: exactly one of the two happens, and whoever gets it may free it or add
 *    it again.
 *  - If several threads touch one member at the same time, the one that began first may win: the
 *    touch counts from the moment at which the call began.
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
    const char *name; /* for dumps and reports; borrowed; default none */
    weft_pool *pool; /* whose workers look; default: the calling fiber's; must be given elsewhere */
    int64_t period_ns; /* default 60 s; WEFT_FOREVER: nobody ever is silent for so long */
    /* At most the period, at least a 65536th of it. Default 1 s, within these. */
    int64_t precision_ns;
    /* Gets each batch, linked by weft_idle_next, on a worker of the pool like a timer's callback:
     * it must not wait. Default: batches are kept until weft_idle_wait. */
    void (*on_silent)(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg);
    void *arg;
};

/* -EINVAL: bad period or precision. -ENOMEM. */
WEFT_API int weft_idle_init(weft_idle_group *group, const struct weft_idle_opts *opts);
/* Nobody may be in the group, in a batch that was not taken, or in weft_idle_wait. Not from
 * on_silent. Waits for an on_silent that is running. */
WEFT_API void weft_idle_deinit(weft_idle_group *group);

/* Counts as a touch. The member is in no group. */
WEFT_API void weft_idle_add(weft_idle_group *group, weft_idle_member *member);
/* True: it is out, and was not in a batch. False: it came out in a batch, or was never added. */
WEFT_API bool weft_idle_remove(weft_idle_group *group, weft_idle_member *member);

/* It is not silent. A member that has come out is not brought back by it. */
static inline void weft_idle_touch(weft_idle_group *group, weft_idle_member *member)
{
    uint64_t step = __atomic_load_n(&group->weft_step, __ATOMIC_RELAXED);
    __atomic_store_n(&member->weft_seen, step, __ATOMIC_RELAXED);
}

/* The next of a batch; to be read before the member is freed or added again. */
static inline weft_idle_member *weft_idle_next(const weft_idle_member *member)
{
    return member->weft_next;
}

/* Waits until there is a batch, and takes all that there is: the number of members, the first of
 * them in *first. -ETIMEDOUT, -ECANCELED, -EINTR. Only without on_silent. */
WEFT_API ssize_t weft_idle_wait(weft_idle_group *group, weft_idle_member **first, int64_t deadline);

/* Members that have not come out. */
WEFT_API size_t weft_idle_count(weft_idle_group *group);

WEFT_END_DECLS
#endif
