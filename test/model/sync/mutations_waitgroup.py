"""The wait group. Read by mutations.py."""

STRUCTURES["waitgroup"] = {
    "client": "sync/client_waitgroup.c",
    "sources": ["src/sync/waitgroup.c"] + WAIT,
    "files": ["src/sync/waitgroup.c"],
}

_of("waitgroup", "src/sync/waitgroup.c",
    "if (step(g, &word, to, memory_order_release)) { /* pairs: add_locked, is_zero_locked */",
    "if (step(g, &word, to, memory_order_relaxed)) {",
    "the effects of a thread that is not the last are not released")
_of("waitgroup", "src/sync/waitgroup.c",
    "} while (!step(g, &word, to, memory_order_acq_rel));",
    "} while (!step(g, &word, to, memory_order_release));",
    "the thread that notifies the waiters has not seen what the others did")
_of("waitgroup", "src/sync/waitgroup.c",
    "    uint64_t word = atomic_load_explicit(&g->word, memory_order_acquire);\n    while (count_in(word) > 0) {",
    "    uint64_t word = atomic_load_explicit(&g->word, memory_order_relaxed);\n    while (count_in(word) > 0) {",
    "a wait that need not wait does not acquire")
_of("waitgroup", "src/sync/waitgroup.c",
    "step(g, &word, word | HAS_WAITERS, memory_order_relaxed)",
    "step(g, &word, word, memory_order_relaxed)",
    "a waiter does not announce itself")
_of("waitgroup", "src/sync/waitgroup.c",
    "        to = to == HAS_WAITERS ? 0 : to;\n",
    "",
    "the last thread notifies no waiter")
_of("waitgroup", "src/sync/waitgroup.c",
    "    while ((to = add_checked(g, word, n)) != HAS_WAITERS) {",
    "    while ((to = add_checked(g, word, n)) != HAS_WAITERS + 1) {",
    "the last counted thread bypasses the lock")
_of("waitgroup", "src/sync/waitgroup.c",
    "        weft__source_unlock_wait(&g->source);\n",
    "        (void)0;\n",
    "a waiter returns while the last thread still holds the lock")
