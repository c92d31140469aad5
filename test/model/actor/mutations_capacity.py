"""Actors: mailbox admission, and senders that wait for capacity. Read by mutations.py after mutations_actor.py."""

STRUCTURES["capacity"] = {
    "client": "actor/client_capacity.c",
    "sources": ACTOR,
    "files": ["src/mailbox/admission.c", "src/mailbox/mailbox.c", "src/actor/actor.h"],
}

_of("capacity", "src/host/step.c",
    "if (__builtin_expect(weft__mailbox_is_shared(actor), 0)) {\n        return try_sleep_shared",
    "if (false) {\n        return try_sleep_shared",
    "an actor checks when it has settled, and senders have moved the message")
_of("capacity", "src/mailbox/admission.c",
    "full && !drops ? admission | WEFT__ADMISSION_CONTENDED : admission + 1",
    "full && !drops ? admission : admission + 1",
    "an actor does not know that a sender waits for capacity")
_of("capacity", "src/mailbox/admission.c",
    "while ((sender = first_to(wait_bucket, to.id)) && reserve(actor, sender, drops)) {",
    "while ((sender = first_to(wait_bucket, to.id)) && false) {",
    "free capacity is given to no sender")
_of("capacity", "src/mailbox/admission.c",
    "(drops || has_capacity(admission, limit & WEFT__LIMIT_MAX))",
    "(drops || limit)",
    "every waiting sender gets capacity")
_of("capacity", "src/mailbox/admission.c",
    "    if (admission & WEFT__ADMISSION_CONTENDED) {\n        reject_waiters(self.id);\n    }\n",
    "",
    "an end leaves senders that wait for capacity")
_of("capacity", "src/mailbox/mailbox.c",
    "    struct weft__envelope *oldest = NULL;\n    struct weft__link *stale = NULL;\n    weft__lock(&actor->lock);\n",
    "    struct weft__envelope *oldest = NULL;\n    struct weft__link *stale = NULL;\n",
    "a sender drops a message without the lock")
_of("capacity", "src/mailbox/admission.c",
    "    if (!sender) {\n        subtract(actor, to, 0, WEFT__ADMISSION_CONTENDED);",
    "    {\n        subtract(actor, to, 0, WEFT__ADMISSION_CONTENDED);",
    "the remaining waiters are forgotten")
_of("capacity", "src/mailbox/admission.c",
    "    uint64_t admission = actor ? subtract(actor, to, count, bits) : 0;\n    if (admission & WEFT__ADMISSION_CONTENDED) {",
    "    uint64_t admission = actor ? subtract(actor, to, count, bits) : 0;\n    if (admission & WEFT__ADMISSION_CONTENDED && count == 0) {",
    "the end of a send credit gives the capacity to no sender")
_of("capacity", "src/mailbox/admission.c",
    "    change_credits(to, WEFT__ADMISSION_CREDIT, WEFT__ADMISSION_CREDIT_UNUSED);",
    "    change_credits(to, WEFT__ADMISSION_CREDIT, 0);",
    "an unused send credit is taken for one that will be used")
_of("capacity", "src/mailbox/admission.c",
    "    if (deferred.pushed) {\n        weft__actor_wake(actor, to, false);\n    }\n",
    "",
    "an actor is not woken for an envelope that was admitted")
_of("capacity", "src/mailbox/admission.c",
    "    complete_sends(deferred.sends, -ESRCH);\n",
    "",
    "a waiting step is not notified of the end")
_of("capacity", "src/mailbox/admission.c",
    "    while (is_for(admission, to)) {\n        if (try_exchange(actor, &admission, (admission - count) & ~bits)) {",
    "    for (;;) {\n        if (try_exchange(actor, &admission, (admission - count) & ~bits)) {",
    "the end of a send credit is counted for the next actor of the slot")
_of("capacity", "src/mailbox/admission.c",
    "    if (linked) {\n        unlink_sender(wait_bucket, sender);\n    }\n    weft__unlock(&wait_bucket->lock);",
    "    weft__unlock(&wait_bucket->lock);",
    "a sender that stopped waiting stays in the queue")
_of("capacity", "src/actor/actor.h",
    "weft__admission_count(admission) - n <= (limit",
    "weft__admission_count(admission) - n < (limit",
    "an actor reserves capacity for itself")
