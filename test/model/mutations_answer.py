"""Calls of actors: the answer, the end of the callee, the deadline. Read by mutations.py."""

STRUCTURES["answer"] = {
    "client": "client_answer.c",
    "sources": ["src/actor/ledger.c", "src/actor/call.c", "src/actor/letter.c", "src/actor/gate.c", "src/actor/end.c", "src/base/small.c"] + WAIT,
    "files": ["src/actor/ledger.c", "src/actor/ledger.h"],
}

_of("answer", "src/actor/ledger.c",
    "    if (__builtin_expect(!owes, 0) && !weft__gate_owe(actor, callee)) {",
    "    if (__builtin_expect(!owes, 0) && !weft__gate_owe(actor, callee) && false) {",
    "a call is linked to one that has ended")
_of("answer", "src/actor/ledger.c",
    "    bool owes = weft__gate_generation(gate) == weft__pid_generation(callee) && (gate & WEFT__GATE_OWED);",
    "    bool owes = weft__gate_generation(gate) == weft__pid_generation(callee);",
    "the callee does not know that there are calls to end")
_of("answer", "src/actor/ledger.c",
    "    drop_all(self);\n    end_calls(self, BY_END);",
    "    drop_all(self);",
    "an end leaves the calls that were not answered")
_of("answer", "src/actor/ledger.c",
    "            take_out_wait(bucket, entry);\n            weft__node_tell(entry->node, -EOWNERDEAD, &ready);",
    "            weft__node_tell(entry->node, -EOWNERDEAD, &ready);",
    "an end leaves the call of a fiber in the ledger")
_of("answer", "src/actor/ledger.c",
    "    if (entry->kind == WEFT__DEBT_CALL && entry->linked) {\n        leave_callee(entry);\n    }",
    "",
    "an answer leaves the call with the callee")
_of("answer", "src/actor/ledger.c",
    "        take_out(bucket, entry);\n        to = entry->to;",
    "        to = entry->to;",
    "an answer leaves the call in the ledger")
_of("answer", "src/actor/ledger.c",
    "        gone = stop_timer(entry);\n        told = true;",
    "        gone = true;\n        told = true;",
    "an answer frees a call whose timer runs")
_of("answer", "src/actor/ledger.c",
    "    if (callee && entry && !ends(entry, callee, ending)) {\n        entry = NULL;\n    }",
    "",
    "an end settles a call that was transferred meanwhile")
_of("answer", "src/actor/ledger.c",
    "    weft__lock(&entry->index->lock);\n    unlink_call(entry);\n    weft__unlock(&entry->index->lock);",
    "    unlink_call(entry);",
    "a call leaves its callee without the lock")
_of("answer", "src/actor/ledger.c",
    "    size_t n = 0;\n    weft__lock(&index->lock);",
    "    size_t n = 0;\n    if (n) weft__lock(&index->lock); else weft__lock_try(&index->lock);",
    "an end walks the list of its calls without the lock")
_of("answer", "src/actor/ledger.c",
    "    *lost = !move_to(bucket, entry, former, index);",
    "    *lost = false;",
    "a transfer that failed forgets the call")
_of("answer", "src/actor/ledger.c",
    "    *lost = !move_to(bucket, entry, former, index);",
    "    *lost = !move_to(bucket, entry, former, index) && false;",
    "a call whose callees have both ended is nobody's")
_of("answer", "src/actor/ledger.c",
    "    return ending == BY_END || (ending == BY_UPGRADE && entry->seen && !entry->kept);",
    "    return ending == BY_END || (ending == BY_UPGRADE && !entry->kept);",
    "new code ends calls that nobody has seen")
_of("answer", "src/actor/ledger.c",
    "    entry->seen = true;",
    "",
    "new code does not end what the old one has seen")
_of("answer", "src/actor/call.c",
    "    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);\n    int err = weft__ledger_add_wait(&call->entry, actor, &letter->tag);",
    "    int err = weft__ledger_add_wait(&call->entry, actor, &letter->tag);\n    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);",
    "a call can end before its wait is armed")
_of("answer", "src/actor/call.c",
    "    weft__ledger_drop(ref, 1u << WEFT__DEBT_WAIT);\n    call->node.value = NULL;",
    "    call->node.value = NULL;",
    "a call that timed out stays in the ledger")
_of("answer", "src/actor/end.c",
    "    uint64_t gate = atomic_exchange_explicit(&actor->gate, 0,\n memory_order_seq_cst); /* pairs: weft__actor_wake */\n    actor->there = WEFT__ENDING;\n    weft__unlock(&actor->lock);\n    weft__gate_settle(weft_actor_pid(actor), gate);",
    "    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_seq_cst);\n    actor->there = WEFT__ENDING;\n    weft__unlock(&actor->lock);\n    weft__gate_settle(weft_actor_pid(actor), gate);\n    atomic_store_explicit(&actor->gate, 0, memory_order_seq_cst);",
    "an end settles its calls before its gate is shut")
_of("answer", "src/base/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a call is seen without what was written of it")
