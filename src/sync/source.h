/* A source: what every object that one can wait on begins with. A lock, the nodes of those who
 * wait, and for whom the object is.
 *
 * An object that has an owner (a pool with one worker, or a dispatcher's group) is used on one
 * thread only, where fibers do not preempt one another: its lock is no lock, and using it elsewhere
 * stops the program.
 *
 * The public structs are storage; each module has its own struct over it, which begins with a
 * source and is static-asserted to fit. may_alias, because the storage was declared as something
 * else.
 */
#ifndef WEFT_SYNC_SOURCE_H
#define WEFT_SYNC_SOURCE_H

#include <weft/sync.h>

#include "base/assert.h"
#include "base/lock.h"
#include "sched/rounds.h"
#include "sched/waiter.h"
#include "sched/worker.h"

#define WEFT__OVERLAY __attribute__((may_alias))

struct WEFT__OVERLAY weft__source {
    struct weft__lock lock;
    uint32_t rank;
    const void *owner;             /* immutable until deinit: as weft__worker.owner, or NULL */
    struct weft__waitlist waiters; /* under the lock */
    const char *name;              /* immutable */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__source) == sizeof(struct weft_source), "the public storage");
#endif

/* For init: zeroes what the caller's memory held. */
void weft__source_init(struct weft__source *source, const struct weft_sync_opts *opts);
/* For deinit; `what` is the kind of object, for the message. */
void weft__source_deinit(struct weft__source *source, const char *what);
/* Stops the program: the caller is not the owner's. */
void weft__source_foreign(const struct weft__source *source) __attribute__((cold, noreturn));

/* Of one that has an owner: the worker whose it is, and the caller's. */
static inline struct weft__worker *weft__source_check_owner(const struct weft__source *source)
{
    struct weft__worker *w = weft__worker_self();
    if (__builtin_expect(!w || w->owner != source->owner, 0)) {
        weft__source_foreign(source);
    }
    return w;
}

/* The same as a question; `w` is the caller's worker or NULL. Of one that has no owner never: every
 * worker has one. */
static inline bool weft__source_is_own(const struct weft__source *source,
                                       const struct weft__worker *w)
{
    return __builtin_expect(w && w->owner == source->owner, 1);
}

/* Of one that has an owner: ends the wait of the first node of the list, if it is that of a fiber
 * that has settled in it, plainly. Then the fiber is the caller's, in no list any more and in no
 * queue yet: what it is to find may still be written. NULL: nothing was done. */
static inline struct weft__task *weft__source_win_first(struct weft__waitlist *list)
{
    struct weft__node *node = list->first;
    struct weft__task *task = node->waiter->task;
    if (!task || !weft__task_fire_plain(task, node->waiter->ticket,
                                        (enum weft__reason)(WEFT__REASON_DONE + node->index))) {
        return NULL;
    }
    weft__waitlist_remove_first(list, node);
    return task;
}

/* Queues a fiber that a source with an owner has fired: it is the owner's, too. */
static inline void weft__source_wake_own(struct weft__worker *w, struct weft__task *task)
{
    if (__builtin_expect(!w->rounds || weft__tracing(w), 0)) {
        weft__place_front(task);
        return;
    }
    weft__rounds_wake_in(w->rounds, w->rounds->running, task, true);
}

static inline void weft__source_lock(struct weft__source *source)
{
    if (__builtin_expect(source->owner != NULL, 0)) {
        weft__source_check_owner(source);
    } else {
        weft__lock(&source->lock);
    }
}

static inline void weft__source_unlock(struct weft__source *source)
{
    if (__builtin_expect(source->owner == NULL, 1)) {
        weft__unlock(&source->lock);
    }
}

/* Finish: the node is unlinked unless the source has done so. Any thread's node, after its wait has
 * ended. */
static inline void weft__source_leave(struct weft__source *source, struct weft__waitlist *list,
                                      struct weft__node *node)
{
    weft__source_lock(source);
    if (node->linked) {
        weft__waitlist_remove(list, node);
    }
    weft__source_unlock(source);
}

/* For one whose wait was ended by the source and who may free it next: whoever ended it is then no
 * longer at the lock. */
static inline void weft__source_pass(struct weft__source *source)
{
    weft__source_lock(source);
    weft__source_unlock(source);
}

/* The whole wait of the calling fiber or thread, for sources with one list: locked on entry,
 * unlocked on return. 0 or what the source gave as status; -ETIMEDOUT, -ECANCELED, -EINTR. The
 * node's value is the caller's to read. */
int weft__source_wait_locked(struct weft__source *source, struct weft__waitlist *list,
                             struct weft__node *node, int64_t deadline,
                             const struct weft__wait_kind *kind);

/* Under the lock: fires everybody on the list. Their values stay as they are. */
void weft__source_fire_all(struct weft__waitlist *list, int status, struct weft__chain *ready);

/* For `holder` of a kind: what `word` says. While the lock is taken it may name one who is still to
 * be fired, and then would seem to wait for itself: 0. Never blocks. */
uint64_t weft__source_look(struct weft__source *source, const _Atomic(uint64_t) *word);

/* For a kind whose `on` is the address of a source. */
const char *weft__source_label(uint64_t on);

#endif
