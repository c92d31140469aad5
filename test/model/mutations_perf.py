"""Perf events: install and removal of the callback against those who call it. Read by mutations.py."""

STRUCTURES["perf"] = {
    "client": "client_perf.c",
    "sources": ["src/sched/perf.c", "src/base/lock.c"],
    "files": ["src/sched/perf.c"],
}

_of("perf", "src/sched/perf.c",
    "        wait_for_users();\n",
    "",
    "a removal does not wait for those in the callback")
_of("perf", "src/sched/perf.c",
    "atomic_fetch_add_explicit(users, 1, memory_order_seq_cst); /* pairs: wait_for_users */",
    "atomic_fetch_add_explicit(users, 1, memory_order_relaxed);",
    "a user is counted without order")
_of("perf", "src/sched/perf.c",
    "&slot->callback, memory_order_seq_cst); /* pairs: install_locked, weft_perf_remove */",
    "&slot->callback, memory_order_acquire);",
    "a user may see the callback of before it was counted")
_of("perf", "src/sched/perf.c",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, NULL, memory_order_seq_cst);",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, NULL, memory_order_release);",
    "a removal looks for users before it is seen")
_of("perf", "src/sched/perf.c",
    "while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_seq_cst)) {",
    "while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_acquire)) {",
    "a removal may see the count of users of before")
_of("perf", "src/sched/perf.c",
    "atomic_fetch_sub_explicit(users, 1, memory_order_release); /* pairs: wait_for_users */",
    "atomic_fetch_sub_explicit(users, 1, memory_order_relaxed);",
    "one who leaves does not release")
_of("perf", "src/sched/perf.c",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, perf, memory_order_release);",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, perf, memory_order_relaxed);",
    "an install does not release what was written before")
_of("perf", "src/sched/perf.c",
    "if (perf && (mask >> type & 1) &&",
    "if (perf &&",
    "nobody looks at the mask again")
_of("perf", "src/sched/perf.c",
    "for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {",
    "for (unsigned i = 1; i < WEFT__PERF_SHARDS; i++) {",
    "plain threads are not waited for")
_of("perf", "src/sched/perf.c",
    "        clear_mask_locked(slot);\n",
    "",
    "a removal leaves what it accepted in the masks")
_of("perf", "src/sched/perf.c",
    "        mask |= atomic_load_explicit(&weft__perf.slots[i].mask, memory_order_relaxed);\n",
    "",
    "a removal takes from the others what they accept")
