"""Channels. Read by mutations.py."""

STRUCTURES["chan"] = {
    "client": "chan/client_chan.c",
    "sources": ["src/chan/chan.c", "src/chan/chan_try.c", "src/base/error.c"] + WAIT,
    "files": ["src/chan/chan_locked.h", "src/chan/chan.c", "src/lock/latch.h"],
}

_of("chan", "src/chan/chan_locked.h",
    "        copy(c, node->item, item);\n        if (weft__node_fire(node, NULL, 0, ready)) {\n            return true;\n        }\n",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            copy(c, node->item, item);\n            return true;\n        }\n",
    "a receiver is fired before its item is written")
_of("chan", "src/chan/chan_locked.h",
    "        if (weft__node_fire(node, NULL, 0, ready)) {\n            return true;\n        }\n    }\n    return false;\n",
    "        weft__node_fire(node, NULL, 0, ready);\n        return true;\n    }\n    return false;\n",
    "an item is given to a receiver whose wait is over")
_of("chan", "src/chan/chan_locked.h",
    "        taken = weft__node_fire(node, NULL, 0, ready);\n",
    "        taken = true;\n        weft__node_fire(node, NULL, 0, ready);\n",
    "an item is taken from a sender that has given up")
_of("chan", "src/chan/chan_locked.h",
    "        copy(c, to, node->item);\n        taken = weft__node_fire(node, NULL, 0, ready);\n",
    "        taken = weft__node_fire(node, NULL, 0, ready);\n        copy(c, to, node->item);\n",
    "a sender is fired before its item is read")
_of("chan", "src/chan/chan.c",
    "    weft__source_fire_all(&c->senders, -EPIPE, &ready);\n",
    "",
    "close leaves waiting senders")
_of("chan", "src/chan/chan.c",
    "    weft__source_fire_all(&c->source.waiters, -EPIPE, &ready);\n",
    "",
    "close leaves waiting receivers")
_of("chan", "src/chan/chan_locked.h",
    "    if (__builtin_expect(is_closed(c), 0)) {\n        return -EPIPE;\n    }\n",
    "",
    "a send does not check whether the channel is closed")
_of("chan", "src/chan/chan.c",
    "        if (take_from_sender(c, slot(c, tail), ready)) {\n",
    "        if (take_from_sender(c, slot(c, tail), ready) && 0) {\n",
    "the item of a waiting sender is not counted")
_of("chan", "src/chan/chan_locked.h",
    "    if (c->source.waiters.first && hand_to_receiver(c, item, ready)) {\n",
    "    if (!c->capacity && c->source.waiters.first && hand_to_receiver(c, item, ready)) {\n",
    "an item is put into the ring while a receiver waits")
_of("chan", "src/chan/chan.c",
    "    if (__builtin_expect(c->source.waiters.first || !has_space(c) || is_closed(c), 0) ||",
    "    if (__builtin_expect(!has_space(c) || is_closed(c), 0) ||",
    "a send with space does not check for waiting receivers")
_of("chan", "src/chan/chan.c",
    "    if (__builtin_expect(c->senders.first || !has_item(c), 0) || c->item_bytes != WORD) {\n",
    "    if (__builtin_expect(!has_item(c), 0) || c->item_bytes != WORD) {\n",
    "a receive frees a slot and does not give it to a waiting sender")
_of("chan", "src/chan/chan_locked.h",
    "    c->head_seen = atomic_load_explicit(&c->head, memory_order_acquire); /* pairs: pop */\n",
    "    c->head_seen = atomic_load_explicit(&c->head, memory_order_relaxed);\n",
    "a slot is reused while its item may still be read")
_of("chan", "src/chan/chan_locked.h",
    "    c->tail_seen = atomic_load_explicit(&c->tail, memory_order_acquire); /* pairs: push */\n",
    "    c->tail_seen = atomic_load_explicit(&c->tail, memory_order_relaxed);\n",
    "a slot is read before its item may be there")
_of("chan", "src/chan/chan_locked.h",
    "    copy_bytes(c->slots + (tail & c->mask) * bytes, item, bytes);\n    atomic_store_explicit(&c->tail, tail + 1, memory_order_release); /* pairs: has_item */\n",
    "    copy_bytes(c->slots + (tail & c->mask) * bytes, item, bytes);\n    atomic_store_explicit(&c->tail, tail + 1, memory_order_relaxed);\n",
    "a push does not release its slot")
_of("chan", "src/chan/chan_locked.h",
    "    atomic_store_explicit(&c->head, head + 1, memory_order_release); /* pairs: has_space */\n",
    "    atomic_store_explicit(&c->head, head + 1, memory_order_relaxed);\n",
    "a pop does not release its slot")
_of("chan", "src/lock/latch.h",
    "memory_order_release); /* pairs: try */",
    "memory_order_relaxed);",
    "a latch is dropped without release")
_of("chan", "src/lock/latch.h",
    "memory_order_acquire) == 0; /* pairs: unlock */",
    "memory_order_relaxed) == 0;",
    "a latch is taken without acquire")
_of("chan", "src/chan/chan.c",
    "    memcpy(node->item, item, WORD);\n    weft__waitlist_remove_first(&c->source.waiters, node);\n    weft__latch_unlock(&c->send_latch);\n    return weft__place(task, WEFT__FRONT);\n",
    "    void *to = node->item;\n    weft__waitlist_remove_first(&c->source.waiters, node);\n    weft__latch_unlock(&c->send_latch);\n    weft__place(task, WEFT__FRONT);\n    memcpy(to, item, WORD);\n    return 0;\n",
    "a receiver is queued before its item is written")
_of("chan", "src/chan/chan.c",
    "    memcpy(item, node->item, WORD);\n    weft__waitlist_remove_first(&c->senders, node);\n",
    "    void *from = node->item;\n    weft__waitlist_remove_first(&c->senders, node);\n    weft__latch_unlock(&c->send_latch);\n    weft__place(task, WEFT__FRONT);\n    memcpy(item, from, WORD);\n    return 0;\n",
    "a sender is queued before its item is read")
_of("chan", "src/chan/chan.c",
    "    weft__waitlist_remove_first(&c->source.waiters, node);\n    weft__latch_unlock(&c->send_latch);\n",
    "    weft__latch_unlock(&c->send_latch);\n    weft__waitlist_remove_first(&c->source.waiters, node);\n",
    "a receiver is unlinked without the latch")
_of("chan", "src/chan/chan.c",
    "    weft__waitlist_remove_first(&c->senders, node);\n    atomic_store_explicit(&c->has_sender,",
    "    atomic_store_explicit(&c->has_sender,",
    "a sender that was served stays linked")
_of("chan", "src/chan/chan.c",
    "    if (__builtin_expect(is_closed(c), 0)) {\n        unlock_senders(c);\n        return -EPIPE;\n    }\n",
    "",
    "a wait begins on a closed channel")
