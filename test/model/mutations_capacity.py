"""Actors: the gate, and those who wait for room. Read by mutations.py after mutations_actor.py."""

STRUCTURES["capacity"] = {
    "client": "client_capacity.c",
    "sources": ACTOR,
    "files": ["src/actor/admission.c", "src/actor/mailbox.c", "src/actor/actor.h"],
}

_of("capacity", "src/actor/step.c",
    "if (__builtin_expect(weft__mailbox_is_shared(actor), 0)) {\n        return try_sleep_shared",
    "if (false) {\n        return try_sleep_shared",
    "an actor looks when it has settled, and senders have moved the message")
_of("capacity", "src/actor/admission.c",
    "full && !drops ? admission | WEFT__ADMISSION_CONTENDED : admission + 1",
    "full && !drops ? admission : admission + 1",
    "an actor does not know that somebody waits for room")
_of("capacity", "src/actor/admission.c",
    "while ((sender = first_to(wait_bucket, to.id)) && reserve(actor, sender, drops)) {",
    "while ((sender = first_to(wait_bucket, to.id)) && false) {",
    "nobody is given the room there is")
_of("capacity", "src/actor/admission.c",
    "(drops || has_capacity(admission, limit & WEFT__LIMIT_MAX))",
    "(drops || limit)",
    "there is a place for everybody who waits")
_of("capacity", "src/actor/admission.c",
    "    if (admission & WEFT__ADMISSION_CONTENDED) {\n        reject_waiters(self.id);\n    }\n",
    "",
    "an end leaves those who wait for room")
_of("capacity", "src/actor/mailbox.c",
    "    struct weft__envelope *oldest = NULL;\n    struct weft__link *stale = NULL;\n    weft__lock(&actor->lock);\n",
    "    struct weft__envelope *oldest = NULL;\n    struct weft__link *stale = NULL;\n",
    "a sender drops a message without the lock")
_of("capacity", "src/actor/admission.c",
    "    if (!sender) {\n        subtract(actor, to, 0, WEFT__ADMISSION_CONTENDED);",
    "    {\n        subtract(actor, to, 0, WEFT__ADMISSION_CONTENDED);",
    "nobody knows of those who wait still")
_of("capacity", "src/actor/admission.c",
    "    uint64_t admission = actor ? subtract(actor, to, count, bits) : 0;\n    if (admission & WEFT__ADMISSION_CONTENDED) {",
    "    uint64_t admission = actor ? subtract(actor, to, count, bits) : 0;\n    if (admission & WEFT__ADMISSION_CONTENDED && count == 0) {",
    "the end of a pass gives the room to nobody")
_of("capacity", "src/actor/admission.c",
    "    change_credits(to, WEFT__ADMISSION_CREDIT, WEFT__ADMISSION_CREDIT_UNUSED);",
    "    change_credits(to, WEFT__ADMISSION_CREDIT, 0);",
    "a pass that nobody uses is taken for one that will be used")
_of("capacity", "src/actor/admission.c",
    "    if (deferred.pushed) {\n        weft__actor_wake(actor, to, false);\n    }\n",
    "",
    "an actor is not woken for a letter that was let in")
_of("capacity", "src/actor/admission.c",
    "    complete_sends(deferred.sends, -ESRCH);\n",
    "",
    "a step that waits is not told of the end")
_of("capacity", "src/actor/admission.c",
    "    while (is_for(admission, to)) {\n        if (try_exchange(actor, &admission, (admission - count) & ~bits)) {",
    "    for (;;) {\n        if (try_exchange(actor, &admission, (admission - count) & ~bits)) {",
    "the end of a pass is counted at the gate of the next one")
_of("capacity", "src/actor/admission.c",
    "    if (linked) {\n        unlink_sender(wait_bucket, sender);\n    }\n    weft__unlock(&wait_bucket->lock);",
    "    weft__unlock(&wait_bucket->lock);",
    "one that does not wait any more stays in the queue")
_of("capacity", "src/actor/actor.h",
    "weft__admission_count(admission) - n <= (limit",
    "weft__admission_count(admission) - n < (limit",
    "an actor keeps room for itself")
