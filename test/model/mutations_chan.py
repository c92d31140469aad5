"""Channels. Read by mutations.py."""

STRUCTURES["chan"] = {
    "client": "client_chan.c",
    "sources": ["src/sync/chan.c"] + WAIT,
    "files": ["src/sync/chan.c"],
}

_of("chan", "src/sync/chan.c",
    "        copy(c, node->item, item);\n        if (weft__node_fire(node, NULL, 0, ready)) {\n            return true;\n        }\n",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            copy(c, node->item, item);\n            return true;\n        }\n",
    "a receiver is fired before its item is written")
_of("chan", "src/sync/chan.c",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            return true;\n        }\n    }\n    return false;\n",
    "        weft__node_fire(node, NULL, 0, ready);\n        return true;\n    }\n    return false;\n",
    "an item is given to a receiver whose wait is over")
_of("chan", "src/sync/chan.c",
    "        taken = weft__node_fire(node, NULL, 0, ready);\n",
    "        taken = true;\n        weft__node_fire(node, NULL, 0, ready);\n",
    "an item is taken from a sender that has given up")
_of("chan", "src/sync/chan.c",
    "        copy(c, to, node->item);\n        taken = weft__node_fire(node, NULL, 0, ready);\n",
    "        taken = weft__node_fire(node, NULL, 0, ready);\n        copy(c, to, node->item);\n",
    "a sender is fired before its item is read")
_of("chan", "src/sync/chan.c",
    "    weft__source_fire_all(&c->senders, -EPIPE, &ready);\n",
    "",
    "close leaves those who wait to send")
_of("chan", "src/sync/chan.c",
    "    weft__source_fire_all(&c->source.waiters, -EPIPE, &ready);\n",
    "",
    "close leaves those who wait to receive")
_of("chan", "src/sync/chan.c",
    "    if (__builtin_expect(is_closed(c), 0)) {\n        return -EPIPE;\n    }\n",
    "",
    "a send does not look whether it is closed")
_of("chan", "src/sync/chan.c",
    "take_over(c, slot(c, length - 1), ready)) {\n",
    "take_over(c, slot(c, 0), ready) && 0) {\n",
    "the item of a sender that waited is not counted")
_of("chan", "src/sync/chan.c",
    "    atomic_store_explicit(&c->offered, true, memory_order_relaxed);\n",
    "",
    "a sender that waits does not say so")
_of("chan", "src/sync/chan.c",
    "    if (c->source.waiters.first && hand_over(c, item, ready)) {\n",
    "    if (c->capacity == 0 && c->source.waiters.first && hand_over(c, item, ready)) {\n",
    "an item is put into the ring while somebody waits for it")
