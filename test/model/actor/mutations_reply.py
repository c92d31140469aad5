"""Calls of actors: the reply, the end of the called actor, the deadline. Read by mutations.py."""

STRUCTURES["reply"] = {
    "client": "actor/client_reply.c",
    "sources": ["src/mailbox/pending.c", "src/mailbox/pending_call.c", "src/mailbox/pending_slot.c", "src/command/call.c", "src/mailbox/envelope.c", "src/mailbox/admission.c", "src/host/actor_exit.c", "src/worker/small_alloc.c"] + WAIT,
    "files": ["src/mailbox/pending.c", "src/mailbox/pending_call.c", "src/mailbox/pending_slot.c", "src/mailbox/pending_table.h", "src/mailbox/pending.h"],
}

_of("reply", "src/mailbox/pending_call.c",
    "    if (__builtin_expect(!has_pending, 0) && !weft__admission_mark_pending(actor, callee)) {",
    "    if (__builtin_expect(!has_pending, 0) && !weft__admission_mark_pending(actor, callee) && false) {",
    "a call is linked to an actor that has ended")
_of("reply", "src/mailbox/pending_call.c",
    "    bool has_pending = weft__admission_generation(admission) == weft__pid_generation(callee) && (admission & WEFT__ADMISSION_HAS_PENDING);",
    "    bool has_pending = weft__admission_generation(admission) == weft__pid_generation(callee);",
    "the called actor does not know that it has calls to end")
_of("reply", "src/mailbox/pending.c",
    "    drop_all(self);\n    weft__pending_end_calls(self);",
    "    drop_all(self);",
    "an end leaves the unanswered calls")
_of("reply", "src/mailbox/pending_call.c",
    "            weft__pending_remove_wait(bucket, entry);\n            weft__node_notify(entry->node, -EOWNERDEAD, &ready);",
    "            weft__node_notify(entry->node, -EOWNERDEAD, &ready);",
    "an end leaves a fiber's call in the pending table")
_of("reply", "src/mailbox/pending.c",
    "    if (entry->kind == WEFT__PENDING_CALL && entry->linked) {\n        weft__pending_unlink_callee(entry);\n    }",
    "",
    "a reply leaves the call linked to the called actor")
_of("reply", "src/mailbox/pending_call.c",
    "        weft__pending_remove_entry(bucket, entry);\n        to = entry->to;",
    "        to = entry->to;",
    "a reply leaves the call in the pending table")
_of("reply", "src/mailbox/pending_call.c",
    "        freeable = weft__pending_stop_timer(entry);\n        delivered = true;",
    "        freeable = true;\n        delivered = true;",
    "a reply frees a call whose timer runs")
_of("reply", "src/mailbox/pending_call.c",
    "    if (callee && entry && !apply_end_cause(entry, callee, end_cause)) {\n        entry = NULL;\n    }",
    "",
    "an end settles a call that was transferred meanwhile")
_of("reply", "src/mailbox/pending_call.c",
    "    weft__lock(&entry->index->lock);\n    unlink_call(entry);\n    weft__unlock(&entry->index->lock);",
    "    unlink_call(entry);",
    "a call is unlinked from the called actor without the lock")
_of("reply", "src/mailbox/pending_call.c",
    "    size_t n = 0;\n    weft__lock(&index->lock);",
    "    size_t n = 0;\n    if (n) weft__lock(&index->lock); else weft__lock_try(&index->lock);",
    "an end walks the list of its calls without the lock")
_of("reply", "src/mailbox/pending_call.c",
    "    *lost = !move_to(bucket, entry, former, index);",
    "    *lost = false;",
    "a failed transfer loses the call")
_of("reply", "src/mailbox/pending_call.c",
    "    *lost = !move_to(bucket, entry, former, index);",
    "    *lost = !move_to(bucket, entry, former, index) && false;",
    "a call whose called actors have both ended is never settled")
_of("reply", "src/mailbox/pending_call.c",
    "    return end_cause == BY_END || (end_cause == BY_UPGRADE && entry->seen && !entry->kept);",
    "    return end_cause == BY_END || (end_cause == BY_UPGRADE && !entry->kept);",
    "an upgrade ends calls that the old code has not seen")
_of("reply", "src/mailbox/pending_call.c",
    "    entry->seen = true;",
    "",
    "an upgrade does not end calls that the old code has seen")
_of("reply", "src/command/call.c",
    "    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);\n    int err = weft__pending_add_wait(&call->entry, actor, &envelope->tag);",
    "    int err = weft__pending_add_wait(&call->entry, actor, &envelope->tag);\n    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);",
    "a call can end before its wait is armed")
_of("reply", "src/command/call.c",
    "    weft__pending_drop(ref, 1u << WEFT__PENDING_WAIT);\n    call->node.value = NULL;",
    "    call->node.value = NULL;",
    "a call that timed out stays in the pending table")
_of("reply", "src/host/actor_exit.c",
    "    uint64_t admission = atomic_exchange_explicit(&actor->admission, 0,\n memory_order_seq_cst); /* pairs: weft__actor_wake */\n    actor->live_state = WEFT__ENDING;\n    weft__unlock(&actor->lock);\n    weft__admission_settle(weft_actor_pid(actor), admission);",
    "    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_seq_cst);\n    actor->live_state = WEFT__ENDING;\n    weft__unlock(&actor->lock);\n    weft__admission_settle(weft_actor_pid(actor), admission);\n    atomic_store_explicit(&actor->admission, 0, memory_order_seq_cst);",
    "an end settles its calls before its admission is closed")
_of("reply", "src/lock/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a call is seen before its fields were written")
