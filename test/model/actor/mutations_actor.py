"""Actors: idle, end, the next actor of the slot. Read by mutations.py."""

# The sources of a running actor: linked to the clients of one_actor.h.
ACTOR = ["src/mailbox/envelope.c", "src/mailbox/admission.c", "src/mailbox/mailbox.c", "src/host/step.c", "src/host/actor_exit.c", "src/host/spawn.c",
         "src/actor/pid.c", "src/worker/small_alloc.c"] + WAIT

STRUCTURES["actor"] = {
    "client": "actor/client_actor.c",
    "sources": ACTOR,
    "files": ["src/mailbox/envelope.c", "src/mailbox/mailbox.c", "src/host/step.c", "src/host/actor_exit.c", "src/actor/actor.h"],
}

_of("actor", "src/host/step.c",
    "        if (!weft__mailbox_has_arrivals(actor, blocked) ||\n            weft__task_fire(task, ticket, WEFT__REASON_DONE) != WEFT__FIRE_ENQUEUE) {\n            return true;\n        }\n",
    "        return true;\n",
    "an actor does not check again after it has settled")
_of("actor", "src/host/step.c",
    "weft__task_fire(task, ticket, WEFT__REASON_DONE) != WEFT__FIRE_ENQUEUE",
    "weft__task_fire(task, ticket, WEFT__REASON_DONE) == WEFT__FIRE_LOST + 9",
    "an actor continues although another thread has woken it")
_of("actor", "src/host/step.c",
    "    if (weft__waiter_settle(task)) { /* pairs: wake */\n        if (!weft__mailbox_has_arrivals(actor, blocked) ||",
    "    if (!weft__mailbox_has_arrivals(actor, blocked)) {\n        if (weft__waiter_settle(task) ||",
    "an actor checks before it has settled")
_of("actor", "src/task/task.h",
    "atomic_load_explicit(&task->state, memory_order_seq_cst));\n}\n\n/* Steps",
    "atomic_load_explicit(&task->state, memory_order_relaxed));\n}\n\n/* Steps",
    "a sender may see the actor awake before the envelope is queued")
_of("actor", "src/mailbox/envelope.c",
    "    weft__task_state_after(task); /* pairs: try_sleep */\n",
    "",
    "a sender does not check whether the actor has settled")
_of("actor", "src/mailbox/envelope.c",
    "if (!asleep || (!system && (asleep & WEFT__ASLEEP_BLOCKED))) {",
    "if (!asleep || (asleep & WEFT__ASLEEP_BLOCKED)) {",
    "a completion does not wake the actor that waits for it")
_of("actor", "src/mailbox/envelope.c",
    "weft__task_fire(task, asleep >> WEFT__ASLEEP_SHIFT, WEFT__REASON_DONE)",
    "weft__task_fire(task, (asleep >> WEFT__ASLEEP_SHIFT) + 1, WEFT__REASON_DONE)",
    "a sender fires a wait that was not published to it")
_of("actor", "src/mailbox/envelope.c",
    "    if (weft__inbox_push_remote(system ? &actor->system : &actor->user, &envelope->link)) {\n        wake",
    "    if (!weft__inbox_push_remote(system ? &actor->system : &actor->user, &envelope->link)) {\n        wake",
    "the sender of the first envelope leaves the wake-up to others")
_of("actor", "src/actor/actor.h",
    "if (weft__admission_generation(admission) != weft__pid_generation(to)) {\n            return -ESRCH;",
    "if (admission == 0) {\n            return -ESRCH;",
    "a sender is admitted by the next actor of the slot")
_of("actor", "src/mailbox/envelope.c",
    "uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_seq_cst); /* pairs: close_admission */",
    "uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_acquire);",
    "a sender may see the admission word as it was before the envelope was queued")
_of("actor", "src/mailbox/envelope.c",
    "        sweep(actor, (uint32_t)to.id);\n",
    "",
    "a sender that comes too late leaves its envelope")
_of("actor", "src/mailbox/envelope.c",
    "    if (!actor->live_state) {\n        user",
    "    {\n        user",
    "a sender takes the envelopes of an actor that is alive")
_of("actor", "src/host/actor_exit.c",
    "    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);\n    weft__unlock(&actor->lock);\n",
    "    weft__unlock(&actor->lock);\n    struct weft__link *user = NULL, *system = NULL;\n",
    "an end does not empty the actor's inboxes")
_of("actor", "src/host/actor_exit.c",
    "memory_order_seq_cst); /* pairs: weft__actor_wake */",
    "memory_order_acq_rel);",
    "the closed admission may be seen after the inboxes were checked")
_of("actor", "src/mailbox/mailbox.c",
    "if (__builtin_expect(weft__envelope_is_stale(actor, envelope), 0)) {",
    "if (false) {",
    "an actor reads an envelope for the previous actor of the slot")
