/* Actor info: reading the state of actors from other threads. An actor does not end while its lock
 * is held, so its record and its task stay valid. */
#include "actorinfo/actor_info.h"

#include <errno.h>

#include "actor/fiber_actor.h"
#include "base/clock.h"
#include "relation/relation.h"
#include "remote/route.h"
#include "sched/fault.h"
#include "sched/pool.h"
#include "supervisor/supervisor.h"
#include "task/slab.h"

const char *weft_actor_state_name(enum weft_actor_state state)
{
    static const char *const names[] = {"ready", "running", "blocked", "idle", "complete"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* A wait without `asleep`: for a step actor a wait that is over, for a fiber actor a wait other
 * than a receive. */
static enum weft_actor_state state_of(const weft_actor *actor, const struct weft__task *task)
{
    uint64_t asleep = atomic_load_explicit(&actor->asleep, memory_order_relaxed);
    switch (weft__fiber_state_of(weft__task_state(task))) {
    case WEFT_FIBER_RUNNING:
        return WEFT_ACTOR_RUNNING;
    case WEFT_FIBER_WAITING:
        if (asleep) {
            return asleep & WEFT__ASLEEP_BLOCKED ? WEFT_ACTOR_BLOCKED : WEFT_ACTOR_IDLE;
        }
        return actor->kind->run ? WEFT_ACTOR_BLOCKED : WEFT_ACTOR_READY;
    default:
        return WEFT_ACTOR_READY;
    }
}

static weft_pid parent_of(const weft_actor *actor)
{
    if (!actor->parent) {
        return (weft_pid){0};
    }
    return (weft_pid){.node = weft__node(), .host = actor->parent_host, .id = actor->parent};
}

/* The topic of the last message it was given. */
static const char *topic_of(const weft_actor *actor, const struct weft__task *task)
{
    return actor->kind->run
               ? atomic_load_explicit(&weft__mail_of(actor)->last, memory_order_relaxed)
               : weft__stackless_note(task);
}

static void read_info_locked(const weft_actor *actor, uint64_t admission,
                             struct weft_actor_info *out)
{
    const struct weft__task *task = weft__slab_find((uint32_t)actor->self);
    int64_t age = weft__clock_ns() - task->born;
    *out = (struct weft_actor_info){
        .pid = weft_actor_pid(actor),
        .parent = parent_of(actor),
        .kind = actor->kind->name,
        .state = state_of(actor, task),
        .fiber = actor->kind->run != NULL,
        .mailbox = weft__admission_count(admission),
        .steps = atomic_load_explicit(&actor->steps, memory_order_relaxed),
        .topic = topic_of(actor, task),
        .age_ns = age > 0 ? age : 0,
    };
    weft__name_first_locked(actor, out->name, sizeof out->name);
}

/* `generation` as in the admission word; 0: any. */
static bool read_if_current(const weft_actor *actor, uint32_t generation, const weft_host *host,
                            struct weft_actor_info *out)
{
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_acquire);
    uint32_t found = weft__admission_generation(admission);
    if (!found || (generation && found != generation) || (host && actor->host != host)) {
        return false;
    }
    read_info_locked(actor, admission, out);
    return true;
}

static bool actor_info(weft_actor *actor, uint32_t generation, const weft_host *host,
                       struct weft_actor_info *out)
{
    weft__lock(&actor->lock);
    bool found = read_if_current(actor, generation, host, out);
    weft__unlock(&actor->lock);
    return found;
}

int weft_actor_info(weft_pid pid, struct weft_actor_info *out)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    if (pid.node != weft__node()) {
        return -EREMOTE;
    }
    return actor && actor_info(actor, weft__pid_generation(pid), NULL, out) ? 0 : -ESRCH;
}

void weft_actor_each(weft_host *host, bool (*visit)(const struct weft_actor_info *info, void *arg),
                     void *arg)
{
    uint32_t slots = weft__slab_slots();
    for (uint32_t slot = 1; slot <= slots; slot++) {
        weft_actor *actor = weft__actor_find(slot);
        struct weft_actor_info info;
        if (actor && atomic_load_explicit(&actor->admission, memory_order_relaxed) &&
            actor_info(actor, 0, host, &info) && !visit(&info, arg)) {
            return;
        }
    }
}

/* --- task info for dumps of fibers ------------------------------------------------------------ */

static void fill_task_info_locked(const weft_actor *actor, const struct weft_actor_info *info,
                                  struct weft__task_info *out)
{
    *out = (struct weft__task_info){
        .node = info->pid.node,
        .host = info->pid.host,
        .kind = info->kind,
        .state = weft_actor_state_name(info->state),
        .topic = info->topic,
        .mailbox = info->mailbox,
        .steps = info->steps,
    };
    weft__supervisor_info_try(actor, &out->supervisor_info, &out->child_info);
}

/* A dump must not wait long for a lock. */
static bool fill_task_info(weft_fiber fiber, struct weft__task_info *out)
{
    weft_actor *actor = weft__actor_find((uint32_t)fiber);
    struct weft_actor_info info;
    if (!actor || !atomic_load_explicit(&actor->admission, memory_order_relaxed) ||
        !weft__lock_try_spin(&actor->lock)) {
        return false;
    }
    bool found = read_if_current(actor, (uint32_t)(fiber >> 32) + 1, NULL, &info);
    if (found) {
        fill_task_info_locked(actor, &info, out);
    }
    weft__unlock(&actor->lock);
    return found;
}

static size_t append(char *buf, size_t used, size_t size, const char *text)
{
    while (*text && used < size) {
        buf[used++] = *text++;
    }
    return used;
}

/* For a fault in a fiber actor. */
static size_t describe(weft_fiber fiber, char *buf, size_t size)
{
    struct weft__task_info info;
    if (!fill_task_info(fiber, &info)) {
        return 0;
    }
    size_t used = append(buf, 0, size, "actor ");
    weft_pid pid = {.node = info.node, .host = info.host, .id = fiber};
    used += weft__pid_write(pid, buf + used, size - used);
    used = append(buf, used, size, " ");
    used = append(buf, used, size, info.kind ? info.kind : "");
    if (info.topic) {
        used = append(buf, used, size, ", last message ");
        used = append(buf, used, size, info.topic);
    }
    return used;
}

void weft__actor_info_register(void)
{
    atomic_store_explicit(&weft__task_info_hook, fill_task_info,
                          memory_order_release); /* pairs: weft__fiber_snapshot */
    atomic_store_explicit(&weft__fault_describe, describe,
                          memory_order_release); /* pairs: add_description */
}
