"""The completion of an operation against the waits of its fiber. Read by mutations.py."""

STRUCTURES["op_state"] = {
    "client": "io/client_op_state.c",
    "sources": [],
    "files": ["src/sched/op_state.h"],
}

_of("op_state", "src/sched/op_state.h",
    "WEFT__OP_STATE_FINISHED, memory_order_acq_rel);",
    "WEFT__OP_STATE_FINISHED, memory_order_acquire);",
    "the completion does not publish the result")
_of("op_state", "src/sched/op_state.h",
    "WEFT__OP_STATE_FINISHED, memory_order_acq_rel);",
    "WEFT__OP_STATE_FINISHED, memory_order_release);",
    "the thread that fires a ticket does not see that it is armed")
_of("op_state", "src/sched/op_state.h",
    "memory_order_acq_rel,  /* pairs: finish */",
    "memory_order_acquire,",
    "the second wait does not publish that it is armed")
_of("op_state", "src/sched/op_state.h",
    "ticket,\n                                                   memory_order_acq_rel,  /* pairs: finish */\n                                                   memory_order_acquire); /* pairs: finish */",
    "ticket,\n                                                   memory_order_acq_rel,  memory_order_relaxed);",
    "a fiber that finds the operation complete does not see the result")
_of("op_state", "src/sched/op_state.h",
    "memory_order_release,  /* pairs: finish */\n                                                   memory_order_acquire); /* pairs: finish */",
    "memory_order_release, memory_order_relaxed);",
    "a fiber that leaves and finds the operation complete does not see the result")
_of("op_state", "src/sched/op_state.h",
    "memory_order_acquire) == WEFT__OP_STATE_FINISHED;",
    "memory_order_relaxed) == WEFT__OP_STATE_FINISHED;",
    "a fiber that checks whether the operation is complete does not see the result")
_of("op_state", "src/sched/op_state.h",
    "memory_order_release,  /* pairs: finish */",
    "memory_order_relaxed,",
    "the thread that frees an abandoned operation does not see what the fiber did to it")
_of("op_state", "src/sched/op_state.h",
    "    return ticket == WEFT__OP_STATE_ABANDONED;",
    "    return false;",
    "an abandoned operation is not freed")
_of("op_state", "src/sched/op_state.h",
    "    ticket = atomic_exchange_explicit(&wait->word, WEFT__OP_STATE_FINISHED, memory_order_acq_rel);",
    "    atomic_store_explicit(&wait->word, WEFT__OP_STATE_FINISHED, memory_order_release);",
    "the completion takes an old ticket")
_of("op_state", "src/sched/op_state.h",
    "    if (__builtin_expect(\n            ticket < WEFT__OP_STATE_ABANDONED && weft__io_waiter_fire(waiter, ticket, ready), 1)) {\n        return false;\n    }\n",
    "    if (ticket < WEFT__OP_STATE_ABANDONED && weft__io_waiter_fire(waiter, ticket, ready)) {\n        ticket = WEFT__OP_STATE_NO_WAITER;\n    }\n",
    "a fiber that was notified is notified again, and may be gone")
_of("op_state", "src/sched/op_state.h",
    "    if (__builtin_expect(\n            ticket < WEFT__OP_STATE_ABANDONED && weft__io_waiter_fire(waiter, ticket, ready), 1)) {\n        return false;\n    }\n",
    "    if (ticket < WEFT__OP_STATE_ABANDONED) {\n        weft__io_waiter_fire(waiter, ticket, ready);\n        return false;\n    }\n",
    "a fiber that has left is not notified")
_of("op_state", "src/sched/op_state.h",
    "    atomic_compare_exchange_strong_explicit(&wait->word, &ticket, WEFT__OP_STATE_NO_WAITER,\n                                            memory_order_relaxed, memory_order_relaxed);",
    "    (void)ticket;\n    atomic_store_explicit(&wait->word, WEFT__OP_STATE_NO_WAITER, memory_order_relaxed);",
    "a fiber that leaves forgets that the operation is complete")
_of("op_state", "src/sched/op_state.h",
    "    atomic_compare_exchange_strong_explicit(&wait->word, &ticket, WEFT__OP_STATE_NO_WAITER,\n                                            memory_order_relaxed, memory_order_relaxed);",
    "    (void)wait, (void)ticket;",
    "a fiber that leaves stays, and takes its own ticket for the completion")
