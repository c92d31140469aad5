"""The barrier. Read by mutations.py."""

STRUCTURES["barrier"] = {
    "client": "sync/client_barrier.c",
    "sources": ["src/sync/barrier.c"] + WAIT,
    "files": ["src/sync/barrier.c"],
}

_of("barrier", "src/sync/barrier.c",
    "        b->arrived = 0;\n        weft__source_fire_all",
    "        weft__source_fire_all",
    "the next phase begins with the parties of the last")
_of("barrier", "src/sync/barrier.c",
    "    if (b->arrived + 1 == b->parties) {",
    "    if (b->arrived == b->parties) {",
    "the phase waits for one party too many")
_of("barrier", "src/sync/barrier.c",
    "        b->arrived--;\n",
    "",
    "a party that gives up still counts as arrived")
_of("barrier", "src/sync/barrier.c",
    "    if (!weft__barrier_finish(b, &node)) {\n",
    "    if (!weft__barrier_finish(b, &node) || reason == WEFT__REASON_CANCEL) {\n",
    "a party returns as if it had left, but the others have counted it")
_of("barrier", "src/sync/barrier.c",
    "    weft__waiter_defer(reason); /* this wait did not deliver it after all */\n",
    "",
    "an interrupt that has not ended the wait is lost")
_of("barrier", "src/sync/barrier.c",
    "    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);\n    weft__source_unlock(&b->source);\n",
    "    weft__source_unlock(&b->source);\n    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);\n",
    "the last party finds a party whose wait is not armed yet")
_of("barrier", "src/lock/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "the last party does not see what the others did before they arrived")
