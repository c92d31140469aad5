/* Joining fibers, and join rights. */
#include <errno.h>
#include <pthread.h>

#include "base/assert.h"
#include "sched/pool.h"
#include "task/fork.h"
#include "task/handle.h"
#include "wait/waiter.h"
#include "worker/spawner.h"

int weft__handle_missing(weft_fiber fiber)
{
    WEFT__REQUIRE(!weft__slab_is_from_parent((uint32_t)fiber),
                  "fiber #%u.%u was created before fork() and is used in the child",
                  (unsigned)(uint32_t)fiber, (unsigned)(fiber >> 32));
    return -ESRCH;
}

/* Under the lock, for a fiber that has ended: uses a right, and frees the block with the last
 * one. */
static void use_right_locked(struct weft__task *task, uint64_t ident, struct weft__spawner *spawner)
{
    if (weft__ident_rights(ident) > 1) {
        weft__ident_unlock(task, ident - WEFT__IDENT_RIGHT);
        return;
    }
    weft__spawner_retire(spawner, task);
}

/* For a fiber that has ended: 0, or the status of a stackless task. */
static int status_of(const struct weft__task *task)
{
    return weft__task_is_stackless(task) ? (int)(int64_t)task->claim.ticket : 0;
}

/* Unlinks the node of a joiner that gives up, unless the fiber has ended or is gone. */
void weft__join_unlink(weft_fiber fiber, struct weft__node *node)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        /* The fiber's end has used the node, which is ours again: acquire. pairs:
         * weft__ident_retire */
        (void)weft__ident_flags(weft__slab_find((uint32_t)fiber));
        return;
    }
    for (struct weft__node **at = &task->joiners; *at; at = &(*at)->next) {
        if (*at == node) {
            *at = node->next;
            break;
        }
    }
    weft__ident_unlock(task, ident);
}

static uint64_t joined_fiber(uint64_t on)
{
    return on;
}

static const struct weft__wait_kind join_kind = {
    .name = "join", .fiber = true, .holder = joined_fiber};

/* The calling thread is the only one that could run the fiber, and it is about to block. */
static bool is_only_runner(const struct weft__task *task)
{
    const weft_pool *home = task->home;
    return home && home->caller && pthread_equal(home->caller_thread, pthread_self()) &&
           (home->worker_count == 1 || task->pin == 0);
}

int weft_join(weft_fiber fiber, void **result, int64_t deadline)
{
    struct weft__worker *w = weft__worker_self();
    if (w && weft__running(w) && weft__task_handle(weft__running(w)) == fiber) {
        return -EDEADLK;
    }
    struct weft__spawner *spawner = weft__spawner_of(w);
    if (!spawner) {
        return -ENOMEM;
    }
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        return weft__handle_missing(fiber);
    }
    if (ident & WEFT__IDENT_DETACHED) {
        weft__ident_unlock(task, ident);
        return -EINVAL;
    }
    if (ident & WEFT__IDENT_DONE) {
        int status = status_of(task);
        if (result && status == 0) {
            *result = task->value;
        }
        use_right_locked(task, ident, spawner);
        return status;
    }
    if (!w && deadline == WEFT_FOREVER && is_only_runner(task)) {
        weft__ident_unlock(task, ident);
        return -EDEADLK;
    }
    struct weft__waiter waiter;
    struct weft__node node;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    node.next = task->joiners;
    task->joiners = &node;
    weft__ident_unlock(task, ident);

    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &join_kind, fiber);
    if (!weft__reason_is_done(reason)) {
        weft__join_unlink(fiber, &node);
        return weft__reason_errno(reason);
    }
    if (result && node.status == 0) {
        *result = node.value;
    }
    return node.status;
}

bool weft__join_try(weft_fiber fiber, void **value, int *status)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__spawner *spawner = weft__spawner_of(w);
    uint64_t ident;
    if (!spawner || weft_self() == fiber) {
        *status = spawner ? -EDEADLK : -ENOMEM;
        return true;
    }
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        *status = weft__handle_missing(fiber);
        return true;
    }
    if (ident & WEFT__IDENT_DETACHED || !(ident & WEFT__IDENT_DONE)) {
        weft__ident_unlock(task, ident);
        *status = -EINVAL;
        return (ident & WEFT__IDENT_DETACHED) != 0;
    }
    *status = status_of(task);
    *value = *status == 0 ? task->value : NULL;
    use_right_locked(task, ident, spawner);
    return true;
}

bool weft__join_arm(weft_fiber fiber, struct weft__node *node)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    WEFT__ASSERT(task);
    if (ident & WEFT__IDENT_DONE) {
        node->value = task->value;
        node->status = status_of(task);
        use_right_locked(task, ident, weft__spawner_of(weft__worker_self()));
        return false;
    }
    node->next = task->joiners;
    task->joiners = node;
    weft__ident_unlock(task, ident);
    return true;
}

bool weft__join_arm_known(weft_fiber fiber, struct weft__node *node)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock_running(fiber, 0, &ident);
    if (!task) {
        return false;
    }
    bool joinable = !(ident & WEFT__IDENT_DETACHED);
    if (joinable) {
        node->next = task->joiners;
        task->joiners = node;
    }
    weft__ident_unlock(task, ident);
    return joinable;
}

void weft__join_disarm(weft_fiber fiber, struct weft__node *node)
{
    weft__join_unlink(fiber, node);
    weft_fiber_detach(fiber);
}

int weft_fiber_share(weft_fiber fiber)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    int err = 0;
    if (!task) {
        return weft__handle_missing(fiber);
    }
    if (ident & WEFT__IDENT_DETACHED) {
        err = -EINVAL;
    } else if (weft__ident_rights(ident) >= WEFT__MAX_RIGHTS) {
        err = -EOVERFLOW;
    } else {
        ident += WEFT__IDENT_RIGHT;
    }
    weft__ident_unlock(task, ident);
    return err;
}

int weft_fiber_detach(weft_fiber fiber)
{
    struct weft__spawner *spawner = weft__spawner_of(weft__worker_self());
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task || !spawner) {
        return task ? -ENOMEM : weft__handle_missing(fiber);
    }
    if (ident & WEFT__IDENT_DETACHED) {
        weft__ident_unlock(task, ident);
        return -EINVAL;
    }
    if (ident & WEFT__IDENT_DONE) {
        use_right_locked(task, ident, spawner);
        return 0;
    }
    ident -= WEFT__IDENT_RIGHT;
    if (weft__ident_rights(ident) == 0) {
        ident |= WEFT__IDENT_DETACHED;
    }
    weft__ident_unlock(task, ident);
    return 0;
}
