"""Idle groups: the core and the group. Read by mutations.py."""

STRUCTURES["idle_group"] = {
    "client": "sync/client_idle_group.c",
    "sources": ["src/sync/idle_group.c", "src/time/idle_list.c"] + WAIT,
    "files": ["src/sync/idle_group.c", "src/time/idle_list.c"],
}

_of("idle_group", "src/time/idle_list.c",
    "    atomic_exchange_explicit(&s->step, step + 1, memory_order_seq_cst);\n    s->closed = s->ends[list_of(s, step)] = clock();\n",
    "    s->closed = s->ends[list_of(s, step)] = clock();\n    atomic_exchange_explicit(&s->step, step + 1, memory_order_seq_cst);\n",
    "a step is closed before its end is known to all")
_of("idle_group", "src/time/idle_list.c",
    "        if (seen > s->oldest) {",
    "        if (seen > s->oldest + 1) {",
    "a member touched one step later counts as idle")
_of("idle_group", "src/time/idle_list.c",
    "now - s->period_ns >= s->ends[list_of(s, s->oldest)]",
    "now - s->period_ns / 2 >= s->ends[list_of(s, s->oldest)]",
    "a member is checked before its time")
_of("idle_group", "src/time/idle_list.c",
    "            s->members--;\n            s->expired++;\n",
    "            s->members--;\n",
    "expired members are not counted")
_of("idle_group", "src/sync/idle_group.c",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            break;\n        }\n",
    "        weft__node_fire(node, NULL, 0, ready);\n        break;\n",
    "a batch is given to a waiter that had given up")
_of("idle_group", "src/sync/idle_group.c",
    "    } else {\n        wake_one(g, &ready);\n    }\n    weft__source_unlock(&g->source);\n    weft__place_all(&ready, WEFT__FRONT);\n}\n\nssize_t",
    "    }\n    weft__source_unlock(&g->source);\n    weft__place_all(&ready, WEFT__FRONT);\n}\n\nssize_t",
    "a waiter that leaves without the batch notifies no other")
_of("idle_group", "src/sync/idle_group.c",
    "        weft_idle_member *first = weft__idle_group_take(g, &n);\n",
    "        weft_idle_member *first = (weft_idle_member *)(void *)weft__idle_list_take_expired(&g->list, &n);\n",
    "a batch for the callback is taken without the lock")
_of("idle_group", "src/sync/idle_group.c",
    "        if (first) { /* they may have been removed meanwhile */\n",
    "        if (batch) {\n",
    "the callback gets a batch whose members were removed")
_of("idle_group", "src/lock/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a batch is returned without what the tick wrote")
