"""Scopes. Read by mutations.py."""

STRUCTURES["scope"] = {
    "client": "sync/client_scope.c",
    "sources": ["src/sync/scope.c", "src/base/error.c", "src/sync/event.c", "src/sched/fiber_local.c", "src/sync/holder.c"] + WAIT,
    "files": ["src/sync/scope.c"],
}

_of("scope", "src/sync/scope.c",
    "    } else if (err) {\n        cancel_with(s, err);\n    }",
    "    }",
    "a cancelled parent waits for children that are never cancelled")
_of("scope", "src/sync/scope.c",
    "    while (s->live > 0) {",
    "    if (s->live > 0) {",
    "close returns when its wait ends, for any reason")
_of("scope", "src/sync/scope.c",
    "    if (--s->live == 0) {",
    "    if (s->live-- == 0) {",
    "the last child does not wake the parent")
_of("scope", "src/sync/scope.c",
    "    if (child) {\n        unlink_child(child);\n    }\n    if (--s->live",
    "    if (--s->live",
    "a child that has ended is still in the list")
_of("scope", "src/sync/scope.c",
    "link_child(cancelled ? &s->cancelled_children : &s->running, child);",
    "link_child(&s->running, child);\n    cancelled = false;",
    "a child that starts in a cancelled scope is not cancelled")
_of("scope", "src/sync/scope.c",
    "        weft__wheel_cancel(s->wheel, &s->timer);\n",
    "",
    "the timer of a closed scope stays armed")
_of("scope", "src/sync/scope.c",
    "        if (cancels) {\n            cancel_children(s, SIZE_MAX, NULL);\n        }\n",
    "",
    "a failure marks the scope and cancels no child")
_of("scope", "src/sync/scope.c",
    "    s->cancelled = true;\n    weft__source_unlock(&s->source);\n    cancel_children(s, SIZE_MAX, NULL);",
    "    weft__source_unlock(&s->source);\n    cancel_children(s, SIZE_MAX, NULL);",
    "a cancel reaches only children that have started")
_of("scope", "src/sync/scope.c",
    "uninterruptible ? WEFT__WAIT_OBJECT | WEFT__WAIT_UNABORTABLE : WEFT__WAIT_OBJECT",
    "WEFT__WAIT_OBJECT",
    "an abort ends the wait for the last child again and again")
_of("scope", "src/sync/scope.c",
    "s->cancelled = s->expired = true;\n    }\n}",
    "s->expired = true;\n    }\n}",
    "a deadline reaches only children that have started")
_of("scope", "src/sync/scope.c",
    "    bool wait = s->live > 0;\n",
    "    bool wait = true;\n",
    "a stackless task waits for children that have all ended")
_of("scope", "src/sync/scope.c",
    "    weft__source_leave(&s->source, &s->source.waiters, node);\n    cancel_after_wait(s, weft__reason_errno(reason));\n    weft__source_lock(&s->source);\n    bool over = s->live == 0;\n    weft__source_unlock(&s->source);\n",
    "    (void)node;\n    bool over = s->live == 0;\n    if (!over) {\n        cancel_after_wait(s, weft__reason_errno(reason));\n    }\n",
    "a stackless task closes while the last child still holds the lock")
