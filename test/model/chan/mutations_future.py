"""Futures and those derived from them. Read by mutations.py."""

STRUCTURES["future"] = {
    "client": "chan/client_future.c",
    "sources": ["src/future/future.c", "src/future/future_combinators.c"] + WAIT,
    "files": ["src/future/future.c", "src/future/future_combinators.c"],
}

_of("future", "src/future/future.c",
    "    if (weft_future_is_done(future)) {\n        weft__source_unlock(&future->source);\n        return 0;\n    }\n",
    "",
    "a wait does not check again under the lock")
_of("future", "src/future/future.c",
    "memory_order_release); /* pairs: state_of */",
    "memory_order_relaxed);",
    "completion does not release what was written before")
_of("future", "src/future/future.c",
    "memory_order_acquire); /* pairs: weft__future_decide */",
    "memory_order_relaxed);",
    "a wait that finds the future completed does not acquire")
_of("future", "src/future/future.c",
    "return atomic_fetch_add_explicit(&future->refs, n, memory_order_acq_rel);",
    "return atomic_fetch_add_explicit(&future->refs, n, memory_order_relaxed);",
    "the future is freed while another thread still uses it")
_of("future", "src/future/future.c",
    "        if (refs == 0) {\n            return false;\n        }\n",
    "",
    "a future that is being freed is taken for alive")
_of("future", "src/future/future.c",
    "    work->garbage = future;\n",
    "    work->garbage = future->garbage;\n    weft__free(future);\n",
    "the future is freed before the dependents that may read it are notified")
_of("future", "src/future/future.c",
    "if (atomic_load_explicit(&future->state, memory_order_relaxed) != WEFT__FUTURE_PENDING) {\n"
    "        give_result(future, then, work);",
    "if (false) {\n        give_result(future, then, work);",
    "a late dependent is never notified")
_of("future", "src/future/future.c",
    "        unlink_then(&future->continuations, then);\n        then->linked = false;\n        give_result(",
    "        unlink_then(&future->continuations, then);\n        give_result(",
    "a dependent that is being notified can still be unlinked")
_of("future", "src/future/future_combinators.c",
    "    if (group->decided) {\n        return false;\n    }\n    bool last = --group->left == 0;",
    "    bool last = --group->left == 0;",
    "a conversion runs for a completed future")
_of("future", "src/future/future_combinators.c",
    "    member->on = NULL;\n    bool decides",
    "    bool decides",
    "a notified member still refers to its future")
_of("future", "src/future/future_combinators.c",
    "            if (weft__future_unlink(on, &group->members[i].then)) {\n                group_unref(group, work);\n            }\n",
    "            weft__future_unlink(on, &group->members[i].then);\n            group_unref(group, work);\n",
    "a member that will be notified is not counted")
_of("future", "src/future/future_combinators.c",
    "            weft__future_unref(on, work);\n",
    "",
    "a release keeps the reference")
