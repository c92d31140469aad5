"""Actors: sleep, end, the next one of the slot. Read by mutations.py."""

# What an actor that runs is made of: linked to the clients of one_actor.h.
ACTOR = ["src/actor/envelope.c", "src/actor/admission.c", "src/actor/mailbox.c", "src/actor/step.c", "src/actor/actor_exit.c", "src/actor/spawn.c",
         "src/actor/pid.c", "src/base/small_alloc.c"] + WAIT

STRUCTURES["actor"] = {
    "client": "client_actor.c",
    "sources": ACTOR,
    "files": ["src/actor/envelope.c", "src/actor/mailbox.c", "src/actor/step.c", "src/actor/actor_exit.c", "src/actor/actor.h"],
}

_of("actor", "src/actor/step.c",
    "        if (!weft__mailbox_has_arrivals(actor, blocked) ||\n            weft__task_fire(task, ticket, WEFT__REASON_DONE) != WEFT__FIRE_ENQUEUE) {\n            return true;\n        }\n",
    "        return true;\n",
    "an actor does not look again after it has settled")
_of("actor", "src/actor/step.c",
    "weft__task_fire(task, ticket, WEFT__REASON_DONE) != WEFT__FIRE_ENQUEUE",
    "weft__task_fire(task, ticket, WEFT__REASON_DONE) == WEFT__FIRE_LOST + 9",
    "an actor goes on though another has woken it")
_of("actor", "src/actor/step.c",
    "    if (weft__waiter_settle(task)) { /* pairs: wake */\n        if (!weft__mailbox_has_arrivals(actor, blocked) ||",
    "    if (!weft__mailbox_has_arrivals(actor, blocked)) {\n        if (weft__waiter_settle(task) ||",
    "an actor looks before it has settled")
_of("actor", "src/sched/task.h",
    "atomic_load_explicit(&task->state, memory_order_seq_cst));\n}\n\n/* Steps",
    "atomic_load_explicit(&task->state, memory_order_relaxed));\n}\n\n/* Steps",
    "a sender may see that it was awake before the letter was there")
_of("actor", "src/actor/envelope.c",
    "    weft__task_state_after(task); /* pairs: try_sleep */\n",
    "",
    "a sender does not look whether the actor has settled")
_of("actor", "src/actor/envelope.c",
    "if (!asleep || (!system && (asleep & WEFT__ASLEEP_BLOCKED))) {",
    "if (!asleep || (asleep & WEFT__ASLEEP_BLOCKED)) {",
    "a completion does not wake one that waits for it")
_of("actor", "src/actor/envelope.c",
    "weft__task_fire(task, asleep >> WEFT__ASLEEP_SHIFT, WEFT__REASON_DONE)",
    "weft__task_fire(task, (asleep >> WEFT__ASLEEP_SHIFT) + 1, WEFT__REASON_DONE)",
    "a sender fires a wait that was not shown to it")
_of("actor", "src/actor/envelope.c",
    "    if (weft__inbox_push_remote(system ? &actor->system : &actor->user, &envelope->link)) {\n        wake",
    "    if (!weft__inbox_push_remote(system ? &actor->system : &actor->user, &envelope->link)) {\n        wake",
    "a sender whose letter is the first leaves it to others to wake")
_of("actor", "src/actor/actor.h",
    "if (weft__admission_generation(admission) != weft__pid_generation(to)) {\n            return -ESRCH;",
    "if (admission == 0) {\n            return -ESRCH;",
    "a sender passes the gate of the next one")
_of("actor", "src/actor/envelope.c",
    "uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_seq_cst); /* pairs: close_admission */",
    "uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_acquire);",
    "a sender may see the gate as it was before the letter was there")
_of("actor", "src/actor/envelope.c",
    "        sweep(actor, (uint32_t)to.id);\n",
    "",
    "a sender that comes too late leaves its letter")
_of("actor", "src/actor/envelope.c",
    "    if (!actor->live_state) {\n        user",
    "    {\n        user",
    "a sender takes letters of one that is there")
_of("actor", "src/actor/actor_exit.c",
    "    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);\n    weft__unlock(&actor->lock);\n",
    "    weft__unlock(&actor->lock);\n    struct weft__link *user = NULL, *system = NULL;\n",
    "an end does not empty its inboxes")
_of("actor", "src/actor/actor_exit.c",
    "memory_order_seq_cst); /* pairs: weft__actor_wake */",
    "memory_order_acq_rel);",
    "that the gate is shut may be seen after the inboxes were looked at")
_of("actor", "src/actor/mailbox.c",
    "if (__builtin_expect(weft__envelope_is_stale(actor, envelope), 0)) {",
    "if (false) {",
    "an actor reads a letter to the one before it")
