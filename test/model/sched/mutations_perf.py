"""Perf events: install and removal of the callback against the threads that call it. Read by mutations.py."""

STRUCTURES["perf"] = {
    "client": "sched/client_perf.c",
    "sources": ["src/worker/perf.c", "src/lock/lock.c"],
    "files": ["src/worker/perf.c"],
}

_of("perf", "src/worker/perf.c",
    "        wait_for_users();\n",
    "",
    "a removal does not wait for threads in the callback")
_of("perf", "src/worker/perf.c",
    "atomic_fetch_add_explicit(users, 1, memory_order_seq_cst); /* pairs: wait_for_users */",
    "atomic_fetch_add_explicit(users, 1, memory_order_relaxed);",
    "a user is counted without order")
_of("perf", "src/worker/perf.c",
    "&slot->callback, memory_order_seq_cst); /* pairs: install_locked, weft_perf_remove */",
    "&slot->callback, memory_order_acquire);",
    "a user may see the callback from before it was counted")
_of("perf", "src/worker/perf.c",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, NULL, memory_order_seq_cst);",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, NULL, memory_order_release);",
    "a removal checks for users before the removal is visible")
_of("perf", "src/worker/perf.c",
    "while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_seq_cst)) {",
    "while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_acquire)) {",
    "a removal may see an earlier count of users")
_of("perf", "src/worker/perf.c",
    "atomic_fetch_sub_explicit(users, 1, memory_order_release); /* pairs: wait_for_users */",
    "atomic_fetch_sub_explicit(users, 1, memory_order_relaxed);",
    "a thread that leaves the callback does not release")
_of("perf", "src/worker/perf.c",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, perf, memory_order_release);",
    "atomic_store_explicit(&weft__perf.slots[slot].callback, perf, memory_order_relaxed);",
    "an install does not release what was written before")
_of("perf", "src/worker/perf.c",
    "if (perf && (mask >> type & 1) &&",
    "if (perf &&",
    "the mask is not checked again")
_of("perf", "src/worker/perf.c",
    "for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {",
    "for (unsigned i = 1; i < WEFT__PERF_SHARDS; i++) {",
    "a removal does not wait for plain threads")
_of("perf", "src/worker/perf.c",
    "        clear_mask_locked(slot);\n",
    "",
    "a removal leaves its types in the masks")
_of("perf", "src/worker/perf.c",
    "        mask |= atomic_load_explicit(&weft__perf.slots[i].mask, memory_order_relaxed);\n",
    "",
    "a removal clears types of the other callbacks")
