"""The awake count. Read by mutations.py."""

STRUCTURES["awake_count"] = {
    "client": "sched/client_awake_count.c",
    "sources": ["src/idle/awake_count.c", "src/idle/parker.c"],
    "files": ["src/idle/awake_count.h", "src/idle/awake_count.c"],
}

_of("awake_count", "src/idle/awake_count.h",
    "WEFT__AWAKE_COUNT_WAKEUP + 1, memory_order_relaxed);",
    "1, memory_order_relaxed);",
    "a wake-up is not counted")
_of("awake_count", "src/idle/awake_count.h",
    "memory_order_release); /* pairs: weft__awake_count_read */",
    "memory_order_relaxed);",
    "a worker's sleep does not release the wake-ups that it did before")
_of("awake_count", "src/idle/awake_count.h",
    "memory_order_acquire); /* pairs: asleep, changed */",
    "memory_order_relaxed);",
    "the watcher does not acquire what was done before the last worker slept")
_of("awake_count", "src/idle/awake_count.h",
    "memory_order_acquire) == /* pairs: park */",
    "memory_order_relaxed) ==",
    "a worker seen parked may have been awake since the first read")
_of("awake_count", "src/idle/awake_count.h",
    "    if (__builtin_expect((before & WEFT__AWAKE_COUNT_WAITING) != 0, 0)) {\n        weft__awake_count_wake_watcher(awake);\n    }\n",
    "    (void)before;\n",
    "no worker wakes the watcher")
_of("awake_count", "src/idle/awake_count.c",
    "        weft__awake_count_ring(awake);\n",
    "",
    "the watcher is woken in the word alone")
_of("awake_count", "src/idle/awake_count.c",
    "        return; /* another thread was faster */\n",
    "        atomic_fetch_or_explicit(&awake->word, WEFT__AWAKE_COUNT_WAITING, memory_order_relaxed);\n",
    "the watcher waits although a worker woke up")
_of("awake_count", "src/idle/awake_count.c",
    "    atomic_fetch_and_explicit(&awake->word, ~WEFT__AWAKE_COUNT_WAITING, memory_order_relaxed);\n}\n",
    "}\n",
    "a wait that ends by its deadline stays in the word")
_of("awake_count", "src/idle/awake_count.c",
    "    if (before & WEFT__AWAKE_COUNT_WAITING) { /* the first of several */\n",
    "    if (before) {\n",
    "each of several workers rings the doorbell")
_of("awake_count", "src/idle/awake_count.c",
    "WEFT__AWAKE_COUNT_WAKEUP, memory_order_release);",
    "WEFT__AWAKE_COUNT_WAKEUP, memory_order_relaxed);",
    "a change is not released to the watcher")
_of("awake_count", "src/idle/awake_count.h",
    "memory_order_acquire); /* pairs: weft__awake_count_ring */",
    "memory_order_relaxed);",
    "the watcher sees the doorbell without the data that it announces")
