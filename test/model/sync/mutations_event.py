"""The event, and with it sync/source.[ch], interrupt and shields. Read by mutations.py."""

STRUCTURES["event"] = {
    "client": "sync/client_event.c",
    "sources": ["src/sync/event.c"] + WAIT,
    "files": ["src/sync/event.c", "src/sync/source.h", "src/sync/source.c", "src/fiber/cancel.c"],
}

_of("event", "src/sync/event.c",
    "    if (is_set(e)) {\n        weft__source_unlock(&e->source);\n        return 0;\n    }\n",
    "",
    "a wait does not check again under the lock")
_of("event", "src/sync/event.c",
    "memory_order_release); /* pairs: is_set */",
    "memory_order_relaxed);",
    "set does not release what was written before")
_of("event", "src/sync/event.c",
    "memory_order_acquire) != 0; /* pairs: weft_event_set */",
    "memory_order_relaxed) != 0;",
    "a wait that finds the event set does not acquire")
_of("event", "src/sync/source.c",
    "    weft__source_leave(source, list, node);\n",
    "",
    "a wait that ended by itself leaves its node linked")
_of("event", "src/sync/source.c",
    "while ((node = weft__waitlist_pop(list))) {",
    "if ((node = weft__waitlist_pop(list))) {",
    "set wakes only the first waiter")
_of("event", "src/fiber/cancel.c",
    "        ident &= ~(uint64_t)WEFT__IDENT_INTERRUPT; /* delivered */\n",
    "",
    "an interrupt is delivered twice")
_of("event", "src/fiber/cancel.c",
    "if (weft__task_ticket(task, &ticket, &kind) && can_end(kind, flags)) {",
    "if (weft__task_ticket(task, &ticket, &kind)) {",
    "a cancel goes through a shield")
