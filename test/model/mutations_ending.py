"""The end of an operation against the waits of its fiber. Read by mutations.py."""

STRUCTURES["ending"] = {
    "client": "client_ending.c",
    "sources": [],
    "files": ["src/net/ending.h"],
}

_of("ending", "src/net/ending.h",
    "WEFT__ENDING_OVER, memory_order_acq_rel);",
    "WEFT__ENDING_OVER, memory_order_acquire);",
    "the end does not publish the result")
_of("ending", "src/net/ending.h",
    "WEFT__ENDING_OVER, memory_order_acq_rel);",
    "WEFT__ENDING_OVER, memory_order_release);",
    "who fires a ticket does not see that it is armed")
_of("ending", "src/net/ending.h",
    "memory_order_acq_rel,  /* pairs: tell */",
    "memory_order_acquire,",
    "who waits once more does not publish that it is armed")
_of("ending", "src/net/ending.h",
    "memory_order_acquire); /* pairs: tell */",
    "memory_order_relaxed);",
    "who finds it over does not see the result")
_of("ending", "src/net/ending.h",
    "    ticket = atomic_exchange_explicit(&ending->word, WEFT__ENDING_OVER, memory_order_acq_rel);",
    "    atomic_store_explicit(&ending->word, WEFT__ENDING_OVER, memory_order_release);",
    "the end takes an old ticket")
_of("ending", "src/net/ending.h",
    "    if (__builtin_expect(ticket != WEFT__ENDING_NONE && weft__io_fire(fiber, ticket, NULL, ready),\n                         1)) {\n        return;\n    }\n",
    "    if (ticket != WEFT__ENDING_NONE && weft__io_fire(fiber, ticket, NULL, ready)) {\n        ticket = WEFT__ENDING_NONE;\n    }\n",
    "who was told is told again, and may be gone")
_of("ending", "src/net/ending.h",
    "    if (__builtin_expect(ticket != WEFT__ENDING_NONE && weft__io_fire(fiber, ticket, NULL, ready),\n                         1)) {\n        return;\n    }\n",
    "    if (ticket != WEFT__ENDING_NONE) {\n        weft__io_fire(fiber, ticket, NULL, ready);\n        return;\n    }\n",
    "who has left is not told")
_of("ending", "src/net/ending.h",
    "    atomic_compare_exchange_strong_explicit(&ending->word, &ticket, WEFT__ENDING_NONE,\n                                            memory_order_relaxed, memory_order_relaxed);",
    "    (void)ticket;\n    atomic_store_explicit(&ending->word, WEFT__ENDING_NONE, memory_order_relaxed);",
    "who leaves forgets that it is over")
_of("ending", "src/net/ending.h",
    "    atomic_compare_exchange_strong_explicit(&ending->word, &ticket, WEFT__ENDING_NONE,\n                                            memory_order_relaxed, memory_order_relaxed);",
    "    (void)ending, (void)ticket;",
    "who leaves stays, and takes its own ticket for the end")
