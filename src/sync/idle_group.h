/* The idle group struct, and its wait split in two steps (arm, finish) for stackless tasks. */
#ifndef WEFT_SYNC_IDLE_GROUP_H
#define WEFT_SYNC_IDLE_GROUP_H

#include <weft/timer.h>

#include "sync/source.h"
#include "time/idle_list.h"

struct WEFT__OVERLAY weft__idle_group {
    /* First: the public touch reads its first field; under the lock. */
    struct weft__idle_list list;
    struct weft__source source;
    weft_timer timer; /* runs while there are members */
    bool ticking;     /* under the lock */
    void (*on_idle)(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg);
    void *arg;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__idle_group) <= sizeof(weft_idle_group), "the public storage");
_Static_assert(sizeof(struct weft__idle_list_node) <= sizeof(weft_idle_member),
               "the public storage");
_Static_assert(offsetof(weft_idle_group, weft_step) == offsetof(struct weft__idle_list, step) &&
                   offsetof(weft_idle_member, weft_seen) ==
                       offsetof(struct weft__idle_list_node, seen) &&
                   offsetof(weft_idle_member, weft_next) ==
                       offsetof(struct weft__idle_list_node, next),
               "what the inline functions use");
#endif

static inline struct weft__idle_group *weft__idle_group_of(weft_idle_group *group)
{
    return (struct weft__idle_group *)(void *)group;
}

/* Links the node, whose waiter is armed. False: there is a batch, nothing was linked; disarm and
 * take. */
bool weft__idle_group_arm(struct weft__idle_group *group, struct weft__node *node);
/* After the wait has ended, for any reason. If the node was fired but its caller leaves without
 * taking the batch, the batch remains: the next waiter is woken. */
void weft__idle_group_finish(struct weft__idle_group *group, struct weft__node *node);
/* The batch, or NULL. */
weft_idle_member *weft__idle_group_take(struct weft__idle_group *group, size_t *n);

#endif
