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
    "memory_order_acq_rel,  /* pairs: set */",
    "memory_order_acquire,",
    "who waits once more does not publish that it is armed")
_of("ending", "src/net/ending.h",
    "memory_order_acquire); /* pairs: set */",
    "memory_order_relaxed);",
    "who finds it over does not see the result")
_of("ending", "src/net/ending.h",
    "    return atomic_exchange_explicit(&ending->word, WEFT__ENDING_OVER, memory_order_acq_rel);",
    "    uint64_t ticket = atomic_load_explicit(&ending->word, memory_order_relaxed);\n"
    "    atomic_store_explicit(&ending->word, WEFT__ENDING_OVER, memory_order_release);\n"
    "    return ticket;",
    "the end takes an old ticket")
_of("ending", "src/net/ending.h",
    "    atomic_compare_exchange_strong_explicit(&ending->word, &ticket, 0, memory_order_relaxed,\n                                            memory_order_relaxed);",
    "    (void)ticket;\n    atomic_store_explicit(&ending->word, 0, memory_order_relaxed);",
    "who leaves forgets that it is over")
_of("ending", "src/net/ending.h",
    "    atomic_compare_exchange_strong_explicit(&ending->word, &ticket, 0, memory_order_relaxed,\n                                            memory_order_relaxed);",
    "    (void)ending, (void)ticket;",
    "who leaves stays, and takes its own ticket for the end")
