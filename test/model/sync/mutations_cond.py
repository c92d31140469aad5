"""The condition variable. Read by mutations.py."""

STRUCTURES["cond"] = {
    "client": "sync/client_cond.c",
    "sources": ["src/sync/cond.c", "src/sync/mutex.c"] + WAIT,
    "files": ["src/sync/cond.c"],
}

_of("cond", "src/sync/cond.c",
    "while ((node = weft__waitlist_pop(&c->source.waiters)) && !weft__node_fire_one(node, node->value, 0, &ready)) {\n    }",
    "if ((node = weft__waitlist_pop(&c->source.waiters))) {\n        weft__node_fire_one(node, node->value, 0, &ready);\n    }",
    "a signal is lost to a waiter that had given up")
_of("cond", "src/sync/cond.c",
    "        weft__cond_finish(weft__cond_of(conds[i]), &nodes[i]);\n",
    "",
    "a wait leaves its nodes linked")
_of("cond", "src/sync/cond.c",
    "        weft__node_init(&nodes[i], waiter, i);\n",
    "        weft__node_init(&nodes[i], waiter, 0);\n",
    "the wait does not report which condition fired")
_of("cond", "src/sync/cond.c",
    "        weft__mutex_lock_uninterruptible(weft__mutex_of(mutex));\n",
    "        (void)weft_mutex_lock(mutex, 0);\n",
    "a wait returns without the mutex")
_of("cond", "src/sync/cond.c",
    "    if (mutex) {\n        weft_mutex_unlock(mutex);\n    }\n    enum weft__reason reason =",
    "    enum weft__reason reason =",
    "a wait keeps the mutex")
_of("cond", "src/sync/cond.c",
    "    weft__source_fire_all(&c->source.waiters, 0, &ready);\n",
    "    struct weft__node *node = weft__waitlist_pop(&c->source.waiters);\n    if (node) {\n"
    "        weft__node_fire(node, NULL, 0, &ready);\n    }\n",
    "a broadcast wakes one waiter")
