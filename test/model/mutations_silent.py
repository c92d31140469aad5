"""Idle groups: the core and the group. Read by mutations.py."""

STRUCTURES["silent"] = {
    "client": "client_silent.c",
    "sources": ["src/sync/silent.c", "src/time/silence.c"] + WAIT,
    "files": ["src/sync/silent.c", "src/time/silence.c"],
}

_of("silent", "src/time/silence.c",
    "    atomic_exchange_explicit(&s->step, step + 1, memory_order_seq_cst);\n    s->closed = s->ends[list_of(s, step)] = clock();\n",
    "    s->closed = s->ends[list_of(s, step)] = clock();\n    atomic_exchange_explicit(&s->step, step + 1, memory_order_seq_cst);\n",
    "a step is closed before its end is known to all")
_of("silent", "src/time/silence.c",
    "        if (seen > s->oldest) {",
    "        if (seen > s->oldest + 1) {",
    "one that was touched a step later is silent")
_of("silent", "src/time/silence.c",
    "now - s->period_ns >= s->ends[list_of(s, s->oldest)]",
    "now - s->period_ns / 2 >= s->ends[list_of(s, s->oldest)]",
    "a member is looked at before its time")
_of("silent", "src/time/silence.c",
    "            s->members--;\n            s->silent++;\n",
    "            s->members--;\n",
    "the silent are not counted")
_of("silent", "src/sync/silent.c",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            break;\n        }\n",
    "        weft__node_fire(node, NULL, 0, ready);\n        break;\n",
    "a batch is told to one who had given up")
_of("silent", "src/sync/silent.c",
    "    } else {\n        tell_one(g, &ready);\n    }\n    weft__source_unlock(&g->source);\n    weft__place_chain(&ready);\n}\n\nssize_t",
    "    }\n    weft__source_unlock(&g->source);\n    weft__place_chain(&ready);\n}\n\nssize_t",
    "one who leaves without the batch tells nobody")
_of("silent", "src/sync/silent.c",
    "        weft_idle_member *first = weft__idle_group_take(g, &n);\n",
    "        weft_idle_member *first = (weft_idle_member *)(void *)weft__silence_take(&g->silence, &n);\n",
    "a batch for the callback is taken without the lock")
_of("silent", "src/sync/silent.c",
    "        if (first) { /* they may have been removed meanwhile */\n",
    "        if (batch) {\n",
    "the callback gets a batch whose members were removed")
_of("silent", "src/base/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a batch comes out without what the tick wrote")
