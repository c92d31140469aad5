"""Calls of actors: the answer, the end of the callee, the deadline. Read by mutations.py."""

STRUCTURES["reply"] = {
    "client": "client_reply.c",
    "sources": ["src/actor/pending.c", "src/actor/call.c", "src/actor/envelope.c", "src/actor/admission.c", "src/actor/actor_exit.c", "src/base/small_alloc.c"] + WAIT,
    "files": ["src/actor/pending.c", "src/actor/pending.h"],
}

_of("reply", "src/actor/pending.c",
    "    if (__builtin_expect(!has_pending, 0) && !weft__admission_mark_pending(actor, callee)) {",
    "    if (__builtin_expect(!has_pending, 0) && !weft__admission_mark_pending(actor, callee) && false) {",
    "a call is linked to one that has ended")
_of("reply", "src/actor/pending.c",
    "    bool has_pending = weft__admission_generation(admission) == weft__pid_generation(callee) && (admission & WEFT__ADMISSION_HAS_PENDING);",
    "    bool has_pending = weft__admission_generation(admission) == weft__pid_generation(callee);",
    "the callee does not know that there are calls to end")
_of("reply", "src/actor/pending.c",
    "    drop_all(self);\n    end_calls(self, BY_END);",
    "    drop_all(self);",
    "an end leaves the calls that were not answered")
_of("reply", "src/actor/pending.c",
    "            remove_wait(bucket, entry);\n            weft__node_notify(entry->node, -EOWNERDEAD, &ready);",
    "            weft__node_notify(entry->node, -EOWNERDEAD, &ready);",
    "an end leaves the call of a fiber in the ledger")
_of("reply", "src/actor/pending.c",
    "    if (entry->kind == WEFT__PENDING_CALL && entry->linked) {\n        unlink_callee(entry);\n    }",
    "",
    "an answer leaves the call with the callee")
_of("reply", "src/actor/pending.c",
    "        remove_entry(bucket, entry);\n        to = entry->to;",
    "        to = entry->to;",
    "an answer leaves the call in the ledger")
_of("reply", "src/actor/pending.c",
    "        freeable = stop_timer(entry);\n        delivered = true;",
    "        freeable = true;\n        delivered = true;",
    "an answer frees a call whose timer runs")
_of("reply", "src/actor/pending.c",
    "    if (callee && entry && !apply_end_cause(entry, callee, end_cause)) {\n        entry = NULL;\n    }",
    "",
    "an end settles a call that was transferred meanwhile")
_of("reply", "src/actor/pending.c",
    "    weft__lock(&entry->index->lock);\n    unlink_call(entry);\n    weft__unlock(&entry->index->lock);",
    "    unlink_call(entry);",
    "a call leaves its callee without the lock")
_of("reply", "src/actor/pending.c",
    "    size_t n = 0;\n    weft__lock(&index->lock);",
    "    size_t n = 0;\n    if (n) weft__lock(&index->lock); else weft__lock_try(&index->lock);",
    "an end walks the list of its calls without the lock")
_of("reply", "src/actor/pending.c",
    "    *lost = !move_to(bucket, entry, former, index);",
    "    *lost = false;",
    "a transfer that failed forgets the call")
_of("reply", "src/actor/pending.c",
    "    *lost = !move_to(bucket, entry, former, index);",
    "    *lost = !move_to(bucket, entry, former, index) && false;",
    "a call whose callees have both ended is nobody's")
_of("reply", "src/actor/pending.c",
    "    return end_cause == BY_END || (end_cause == BY_UPGRADE && entry->seen && !entry->kept);",
    "    return end_cause == BY_END || (end_cause == BY_UPGRADE && !entry->kept);",
    "new code ends calls that nobody has seen")
_of("reply", "src/actor/pending.c",
    "    entry->seen = true;",
    "",
    "new code does not end what the old one has seen")
_of("reply", "src/actor/call.c",
    "    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);\n    int err = weft__pending_add_wait(&call->entry, actor, &envelope->tag);",
    "    int err = weft__pending_add_wait(&call->entry, actor, &envelope->tag);\n    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);",
    "a call can end before its wait is armed")
_of("reply", "src/actor/call.c",
    "    weft__pending_drop(ref, 1u << WEFT__PENDING_WAIT);\n    call->node.value = NULL;",
    "    call->node.value = NULL;",
    "a call that timed out stays in the ledger")
_of("reply", "src/actor/actor_exit.c",
    "    uint64_t admission = atomic_exchange_explicit(&actor->admission, 0,\n memory_order_seq_cst); /* pairs: weft__actor_wake */\n    actor->live_state = WEFT__ENDING;\n    weft__unlock(&actor->lock);\n    weft__admission_settle(weft_actor_pid(actor), admission);",
    "    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_seq_cst);\n    actor->live_state = WEFT__ENDING;\n    weft__unlock(&actor->lock);\n    weft__admission_settle(weft_actor_pid(actor), admission);\n    atomic_store_explicit(&actor->admission, 0, memory_order_seq_cst);",
    "an end settles its calls before its gate is shut")
_of("reply", "src/base/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a call is seen without what was written of it")
