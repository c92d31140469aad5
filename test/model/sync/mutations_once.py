"""Once. Read by mutations.py."""

STRUCTURES["once"] = {
    "client": "sync/client_once.c",
    "sources": ["src/sync/once.c", "src/sched/fiber_local.c"] + WAIT,
    "files": ["src/sync/once.c"],
}

_of("once", "src/sync/once.c",
    "        atomic_store_explicit(&o->word, self, memory_order_relaxed);\n",
    "",
    "a caller that comes while the function runs calls it too")
_of("once", "src/sync/once.c",
    "atomic_store_explicit(&o->word, DONE, memory_order_release); /* pairs: is_done */",
    "atomic_store_explicit(&o->word, DONE, memory_order_relaxed);",
    "the function's effects are not released")
_of("once", "src/sync/once.c",
    "    return atomic_load_explicit(&o->word, memory_order_acquire) ==",
    "    return atomic_load_explicit(&o->word, memory_order_relaxed) ==",
    "a caller that finds it done does not acquire")
_of("once", "src/sync/once.c",
    "    weft__source_fire_all(&o->source.waiters, 0, &ready);\n",
    "",
    "the waiters are not notified")
_of("once", "src/sync/once.c",
    "    if (word == DONE) {\n        return WEFT__ONCE_DONE;\n    }\n",
    "    if (word == DONE) {\n        return WEFT__ONCE_WAIT;\n    }\n",
    "a caller that has seen it run waits although it is done")
_of("once", "src/sync/once.c",
    "    fn(arg);\n    if (fiber) {\n        weft_fiber_cleanup_pop(&guard, false);\n    }\n    weft__once_done(o);\n",
    "    weft__once_done(o);\n    fn(arg);\n    if (fiber) {\n        weft_fiber_cleanup_pop(&guard, false);\n    }\n",
    "it is marked done before the function has run")
_of("once", "src/sync/source.c",
    "    weft__source_leave(source, list, node);\n",
    "",
    "a waiter that gave up is still in the list")
