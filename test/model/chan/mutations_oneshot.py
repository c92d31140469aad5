"""The oneshot. Read by mutations.py."""

STRUCTURES["oneshot"] = {
    "client": "chan/client_oneshot.c",
    "sources": ["src/future/oneshot.c"] + WAIT,
    "files": ["src/future/oneshot.c"],
}

_of("oneshot", "src/future/oneshot.c",
    "        weft__source_lock(&o->source); /* the notifier has released the lock */\n"
    "        weft__source_unlock(&o->source);\n",
    "",
    "the wait returns while the notifier still holds the lock")
_of("oneshot", "src/future/oneshot.c",
    "return node && weft__node_fire(node, value, status, ready);",
    "return node && (weft__node_fire(node, value, status, ready), true);",
    "a value that found its waiter gone counts as taken")
_of("oneshot", "src/future/oneshot.c",
    "    hand_over_locked(o, NULL, -EPIPE, &ready);\n",
    "",
    "close does not wake the waiter")
_of("oneshot", "src/future/oneshot.c",
    "    if (o->state == WEFT__ONESHOT_FULL) {\n        o->state = WEFT__ONESHOT_TAKEN;\n    }\n",
    "",
    "a value that was kept can be taken again")
_of("oneshot", "src/future/oneshot.c",
    "    if (o->state != WEFT__ONESHOT_EMPTY) {\n        int err",
    "    if (o->state == WEFT__ONESHOT_CLOSED) {\n        int err",
    "a second notify is accepted")
_of("oneshot", "src/future/oneshot.c",
    "    o->value = value;\n",
    "",
    "a value that comes first is not kept")
_of("oneshot", "src/future/oneshot.c",
    "        weft__source_unlock(&o->source);\n        return -EALREADY;",
    "        weft__source_unlock(&o->source);\n        return 0;",
    "a close that came too late reports that it was in time")
