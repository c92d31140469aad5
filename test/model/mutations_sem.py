"""The semaphore. Read by mutations.py."""

STRUCTURES["sem"] = {
    "client": "client_sem.c",
    "sources": ["src/sync/sem.c"] + WAIT,
    "files": ["src/sync/sem.c"],
}

_of("sem", "src/sync/sem.c",
    "        serve(s); /* the waiters after it */\n",
    "",
    "when one gives up, those behind are forgotten")
_of("sem", "src/sync/sem.c",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            word -= wants * ONE;\n        }\n",
    "        weft__node_fire(node, NULL, 0, ready);\n        word -= wants * ONE;\n",
    "permits are lost to one who had given up")
_of("sem", "src/sync/sem.c",
    "    if (!s->source.waiters.first) {\n        word &= ~(uint64_t)QUEUED;\n    }\n",
    "    word &= ~(uint64_t)QUEUED;\n",
    "QUEUED is cleared while somebody waits")
_of("sem", "src/sync/sem.c",
    "bool enough = !(word & QUEUED) && word / ONE >= n;",
    "bool enough = false;",
    "one queues up though there is enough")
_of("sem", "src/sync/sem.c",
    "if (step(s, &word, word + n * ONE, memory_order_release)) {",
    "if (step(s, &word, word + n * ONE, memory_order_relaxed)) {",
    "a release that nobody waits for does not release")
_of("sem", "src/sync/sem.c",
    "if (step(s, &word, word - n * ONE, memory_order_acquire)) {",
    "if (step(s, &word, word - n * ONE, memory_order_relaxed)) {",
    "an acquire that need not wait does not acquire")
_of("sem", "src/sync/sem.c",
    "        weft__source_unlock_wait(&s->source);\n",
    "",
    "a waiter returns while the release is still at the lock")
