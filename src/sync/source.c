#include "sync/source.h"

#include <errno.h>
#include <string.h>

#include "sched/group_scheduler.h"
#include "sched/pool.h"

void weft__source_init(struct weft__source *source, const struct weft_sync_opts *opts)
{
    memset(source, 0, sizeof *source);
    if (opts) {
        WEFT__REQUIRE(!opts->owner || opts->owner->worker_count == 1,
                      "%s: the owner, pool %s, has more than one worker",
                      opts->name ? opts->name : "an object", opts->owner->name);
        source->name = opts->name;
        WEFT__REQUIRE(!opts->owner || !opts->owner->group_sched,
                      "%s: a dispatcher's objects belong to one of its groups",
                      opts->name ? opts->name : "an object");
        source->owner = opts->group
                            ? weft__group_queues_owner(
                                  (const struct weft__group_queues *)(const void *)opts->group)
                            : opts->owner;
        source->rank = opts->rank;
    }
}

void weft__source_deinit(struct weft__source *source, const char *what)
{
    if (source->owner) {
        source->owner = NULL; /* the owner may be gone, e.g. a finished group */
    }
    weft__source_lock(source);
    bool waited_on = source->waiters.first != NULL;
    weft__source_unlock(source);
    WEFT__REQUIRE(!waited_on, "%s %s was destroyed while a fiber or thread waits on it", what,
                  source->name ? source->name : "without a name");
}

static void name_owner(const void *owner, const char **kind, const char **name)
{
    const struct weft__group_queues *queues = weft__owner_group_queues(owner);
    *kind = queues ? "group " : owner ? "pool " : "a plain thread";
    *name = queues ? queues->name : owner ? ((const weft_pool *)owner)->name : "";
}

void weft__source_wrong_owner(const struct weft__source *source)
{
    const struct weft__worker *w = weft__worker_self();
    const char *kinds[2], *names[2];
    name_owner(source->owner, &kinds[0], &names[0]);
    name_owner(w ? w->owner : NULL, &kinds[1], &names[1]);
    weft__panic(__FILE__, __LINE__, "%s belongs to %s%s and was used from %s%s",
                source->name ? source->name : "an object", kinds[0], names[0], kinds[1], names[1]);
}

int weft__source_wait_locked(struct weft__source *source, struct weft__waitlist *list,
                             struct weft__node *node, int64_t deadline,
                             const struct weft__wait_kind *kind)
{
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    node->waiter = &waiter;
    weft__waitlist_push(list, node);
    weft__source_unlock(source);
    enum weft__reason reason =
        weft__waiter_park(&waiter, deadline, kind, (uint64_t)(uintptr_t)source);
    if (weft__reason_is_done(reason)) {
        return node->status;
    }
    weft__source_leave(source, list, node);
    return weft__reason_errno(reason);
}

void weft__source_fire_all(struct weft__waitlist *list, int status, struct weft__chain *ready)
{
    struct weft__node *node;
    while ((node = weft__waitlist_pop(list))) {
        node->status = status;
        weft__waiter_fire(node->waiter, (enum weft__reason)(WEFT__REASON_DONE + node->index),
                          ready);
    }
}

uint64_t weft__source_peek(struct weft__source *source, const _Atomic(uint64_t) *word)
{
    if (!weft__lock_try(&source->lock)) {
        return 0;
    }
    uint64_t found = atomic_load_explicit(word, memory_order_relaxed);
    weft__unlock(&source->lock);
    return found;
}

const char *weft__source_label(uint64_t on)
{
    return ((const struct weft__source *)(uintptr_t)on)->name;
}
