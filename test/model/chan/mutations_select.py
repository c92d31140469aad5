"""Select, and what channels do for it. Read by mutations.py."""

STRUCTURES["select"] = {
    "client": "chan/client_select.c",
    "sources": ["src/chan/select.c", "src/base/error.c", "src/chan/chan.c", "src/chan/chan_try.c", "src/sync/event.c", "src/future/future.c", "src/future/future_combinators.c",
                "src/sync/cond.c", "src/sync/mutex.c"] + WAIT,
    "files": ["src/chan/select.c"],
}

_of("select", "src/chan/select.c",
    "        nodes[i].shared = true;\n",
    "",
    "the result is written by a source that has not won")
_of("select", "src/chan/select.c",
    "    (void)won;\n    weft__chan_finish_recv(one->object, node);\n",
    "    if (!won) {\n        weft__chan_finish_recv(one->object, node);\n    }\n",
    "the winner's finish does not wait until the item is written")
_of("select", "src/chan/select.c",
    "finish_early(cases, nodes, armed, timer, weft__waiter_disarm(waiter))",
    "finish_early(cases, nodes, armed, timer, weft__waiter_disarm(waiter) == WEFT__REASON_CANCEL ? WEFT__REASON_CANCEL : WEFT__REASON_NONE)",
    "a case that need not wait is taken although another has fired")
_of("select", "src/chan/select.c",
    "        if (!weft__case_ops_of(&cases[i])->arm(&cases[i], &nodes[i])) {\n            break;\n        }\n",
    "        weft__case_ops_of(&cases[i])->arm(&cases[i], &nodes[i]);\n",
    "a case that became ready while linking is not seen")
_of("select", "src/chan/select.c",
    "    if (!won) {\n        weft__event_finish(weft__event_of(one->object), node);\n    }\n",
    "    (void)one, (void)node, (void)won;\n",
    "an event keeps the node of a finished select")
_of("select", "src/chan/select.c",
    "    for (size_t i = 0; i < armed; i++) {\n",
    "    for (size_t i = 1; i < armed; i++) {\n",
    "the first node stays linked")
_of("select", "src/chan/select.c",
    "? (int)armed : done;",
    "? (int)armed : done == -EAGAIN ? (int)armed : done;",
    "a case is reported as done although another was faster")
_of("select", "src/chan/chan_try.c",
    "    while (node && node->waiter == self) {\n        node = node->next;\n    }\n",
    "    (void)self;\n",
    "a select matches itself")
_of("select", "src/chan/chan_locked.h",
    "            if (weft__node_fire(node, NULL, 0, ready)) {\n                copy(c, to, item);\n                return true;\n            }\n            continue;\n",
    "            weft__node_fire(node, NULL, 0, ready);\n            copy(c, to, item);\n            return true;\n",
    "an item is given to a select that has taken another")
_of("select", "src/chan/chan.c",
    "    if (to_send) {\n        atomic_store_explicit(&c->has_sender, true, memory_order_relaxed);\n    }\n",
    "",
    "a waiting sender does not announce itself")
_of("select", "src/chan/select.c",
    "        unlock_all(cases, n);\n",
    "",
    "the mutex of a condition is held while the select waits")
_of("select", "src/chan/select.c",
    "    lock_all(cases, n);\n    return done;",
    "    (void)lock_all;\n    return done;",
    "the mutex of a condition is not relocked")
_of("select", "src/chan/select.c",
    "    weft__cond_arm(weft__cond_of(one->object), node);\n    return true;\n",
    "    if (one->item) {\n        weft_mutex_unlock(one->item);\n        weft_mutex_lock(one->item, WEFT_FOREVER);\n    }\n    weft__cond_arm(weft__cond_of(one->object), node);\n    return true;\n",
    "the mutex is released before the select is linked to the condition")
_of("select", "src/chan/select.c",
    "FIRED, memory_order_acq_rel) & LINKED) {",
    "FIRED, memory_order_acq_rel) || on_done) {",
    "a stackless task is notified while it still links")
_of("select", "src/chan/select.c",
    "LINKED, memory_order_acq_rel) & FIRED) {",
    "LINKED, memory_order_acq_rel) & LINKED) {",
    "a stackless task that was fired while it linked is never notified")
_of("select", "src/chan/select.c",
    "atomic_fetch_or_explicit(&s->arrivals, LINKED, memory_order_acq_rel)",
    "atomic_fetch_or_explicit(&s->arrivals, LINKED, memory_order_acquire)",
    "the thread that notifies the task does not see what the task has linked")
_of("select", "src/chan/select.c",
    "if (s->armed < s->n && weft__waiter_disarm(&s->waiter) == WEFT__REASON_NONE) {\n        return finish_early(s->cases, s->nodes, s->armed, s->timer, WEFT__REASON_NONE);",
    "if (s->armed < s->n) {\n        return finish_early(s->cases, s->nodes, s->armed, s->timer, weft__waiter_disarm(&s->waiter));",
    "a stackless task leaves while a thread that fired it has not arrived")
