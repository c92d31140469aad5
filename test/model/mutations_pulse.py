"""The pulse. Read by mutations.py."""

STRUCTURES["pulse"] = {
    "client": "client_pulse.c",
    "sources": ["src/sched/pulse.c", "src/sched/parker.c"],
    "files": ["src/sched/pulse.h", "src/sched/pulse.c"],
}

_of("pulse", "src/sched/pulse.h",
    "WEFT__PULSE_AWOKEN + 1, memory_order_relaxed);",
    "1, memory_order_relaxed);",
    "to awake is not counted")
_of("pulse", "src/sched/pulse.h",
    "memory_order_release); /* pairs: weft__pulse_read */",
    "memory_order_relaxed);",
    "a worker's sleep does not release whom it woke before")
_of("pulse", "src/sched/pulse.h",
    "memory_order_acquire); /* pairs: asleep, changed */",
    "memory_order_relaxed);",
    "the watcher does not acquire what was done before the last fell asleep")
_of("pulse", "src/sched/pulse.h",
    "memory_order_acquire) == /* pairs: park */",
    "memory_order_relaxed) ==",
    "one seen parked may have been awake since the first read")
_of("pulse", "src/sched/pulse.h",
    "    if (__builtin_expect((before & WEFT__PULSE_RESTING) != 0, 0)) {\n        weft__pulse_rouse(pulse);\n    }\n",
    "    (void)before;\n",
    "nobody rouses the watcher")
_of("pulse", "src/sched/pulse.c",
    "        weft__pulse_call(pulse);\n",
    "",
    "the watcher is roused in the word alone")
_of("pulse", "src/sched/pulse.c",
    "        return; /* somebody was faster */\n",
    "        atomic_fetch_or_explicit(&pulse->word, WEFT__PULSE_RESTING, memory_order_relaxed);\n",
    "the watcher rests though somebody awoke")
_of("pulse", "src/sched/pulse.c",
    "    atomic_fetch_and_explicit(&pulse->word, ~WEFT__PULSE_RESTING, memory_order_relaxed);\n}\n",
    "}\n",
    "a rest that ends by time is still in the word")
_of("pulse", "src/sched/pulse.c",
    "    if (before & WEFT__PULSE_RESTING) { /* the first of several */\n",
    "    if (before) {\n",
    "each of several rings")
_of("pulse", "src/sched/pulse.c",
    "WEFT__PULSE_AWOKEN, memory_order_release);",
    "WEFT__PULSE_AWOKEN, memory_order_relaxed);",
    "a change is not released to the watcher")
_of("pulse", "src/sched/pulse.h",
    "memory_order_acquire); /* pairs: weft__pulse_call */",
    "memory_order_relaxed);",
    "a bell that has rung is heard without what it is about")
