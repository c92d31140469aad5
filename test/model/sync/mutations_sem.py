"""The semaphore. Read by mutations.py."""

STRUCTURES["sem"] = {
    "client": "sync/client_sem.c",
    "sources": ["src/sync/sem.c"] + WAIT,
    "files": ["src/sync/sem.c"],
}

_of("sem", "src/sync/sem.c",
    "        serve(s); /* the waiters after it */\n",
    "",
    "when a waiter gives up, the waiters after it are forgotten")
_of("sem", "src/sync/sem.c",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            word -= wants * ONE;\n        }\n",
    "        weft__node_fire(node, NULL, 0, ready);\n        word -= wants * ONE;\n",
    "permits are lost to a waiter that had given up")
_of("sem", "src/sync/sem.c",
    "    if (!s->source.waiters.first) {\n        word &= ~(uint64_t)QUEUED;\n    }\n",
    "    word &= ~(uint64_t)QUEUED;\n",
    "QUEUED is cleared while a fiber waits")
_of("sem", "src/sync/sem.c",
    "bool enough = !(word & QUEUED) && word / ONE >= n;",
    "bool enough = false;",
    "an acquire queues although there are enough permits")
_of("sem", "src/sync/sem.c",
    "if (step(s, &word, word + n * ONE, memory_order_release)) {",
    "if (step(s, &word, word + n * ONE, memory_order_relaxed)) {",
    "a release without waiters does not release")
_of("sem", "src/sync/sem.c",
    "if (step(s, &word, word - n * ONE, memory_order_acquire)) {",
    "if (step(s, &word, word - n * ONE, memory_order_relaxed)) {",
    "an acquire that need not wait does not acquire")
_of("sem", "src/sync/sem.c",
    "        weft__source_unlock_wait(&s->source);\n",
    "",
    "a waiter returns while the release still holds the lock")
