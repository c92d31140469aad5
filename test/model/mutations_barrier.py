"""The barrier. Read by mutations.py."""

STRUCTURES["barrier"] = {
    "client": "client_barrier.c",
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
    "one more is waited for than there are")
_of("barrier", "src/sync/barrier.c",
    "        b->arrived--;\n",
    "",
    "one who gives up has arrived all the same")
_of("barrier", "src/sync/barrier.c",
    "    if (!weft__barrier_finish(b, &node)) {\n",
    "    if (!weft__barrier_finish(b, &node) || reason == WEFT__REASON_CANCEL) {\n",
    "one is told that it has left, and the others have counted it")
_of("barrier", "src/sync/barrier.c",
    "    weft__waiter_defer(reason); /* this wait did not deliver it after all */\n",
    "",
    "an interrupt that has not ended the wait is lost")
_of("barrier", "src/sync/barrier.c",
    "    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);\n    weft__source_unlock(&b->source);\n",
    "    weft__source_unlock(&b->source);\n    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);\n",
    "the last finds a party whose wait is not armed yet")
_of("barrier", "src/base/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "the last does not see what the others did before they arrived")
