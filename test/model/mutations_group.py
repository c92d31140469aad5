"""The gate of a group and the rounds that serve it. Read by mutations.py."""

STRUCTURES["group"] = {
    "client": "client_group.c",
    "sources": ["src/sched/rounds.c", "src/sched/parker.c"],
    "files": ["src/sched/gate.h", "src/sched/rounds.c"],
}

_of("group", "src/sched/gate.h",
    "        if (word & WEFT__GATE_SHUT) {\n            return false;\n        }\n",
    "",
    "what comes after the end is accepted")
_of("group", "src/sched/gate.h",
    "&gate->word, &word, word + WEFT__GATE_ONE,",
    "&gate->word, &word, word,",
    "what is on its way is not counted")
_of("group", "src/sched/gate.h",
    "    return atomic_compare_exchange_strong_explicit(&gate->word, &nothing, WEFT__GATE_SHUT,\n"
    "                                                   memory_order_relaxed, memory_order_relaxed);\n",
    "    (void)nothing;\n"
    "    atomic_store_explicit(&gate->word, WEFT__GATE_SHUT, memory_order_relaxed);\n"
    "    return true;\n",
    "the gate is shut while something is on its way")
_of("group", "src/sched/gate.h",
    "    atomic_fetch_sub_explicit(&gate->word, WEFT__GATE_ONE, memory_order_relaxed);\n",
    "    atomic_store_explicit(&gate->word, 0, memory_order_relaxed);\n",
    "an arrival takes others for arrived, too")
_of("group", "src/sched/rounds.c",
    "            weft__rounds_list(r, ranks); /* to be settled after its turn, be it an empty one */\n",
    "",
    "a group is not settled after what was posted")
_of("group", "src/sched/rounds.c",
    "            weft__rounds_start(r, task);\n            weft__gate_arrive(&ranks->gate);\n",
    "            weft__rounds_start(r, task);\n",
    "a fiber from outside never arrives")
_of("group", "src/sched/rounds.c",
    "            weft__rounds_list(r, ranks); /* to be settled after its turn, be it an empty one */\n",
    "            weft__rounds_list(r, command->ranks);\n",
    "what was posted is looked at after it was called")
_of("group", "src/sched/rounds.c",
    "    if (weft__inbox_push_remote(&r->commands, &command->link)) {\n"
    "        weft__parker_wake(&r->worker->sleeper.parker);\n    }\n",
    "    weft__inbox_push_remote(&r->commands, &command->link);\n",
    "a dispatcher that sleeps is not woken")
_of("group", "src/sched/rounds.c",
    "        ranks->live++;\n",
    "        ranks->live += 2;\n",
    "a fiber is counted twice")
_of("group", "src/queue/inbox.h",
    "        &inbox->newest, NULL, memory_order_acquire); /* pairs: push_remote */\n",
    "        &inbox->newest, NULL, memory_order_relaxed);\n",
    "what was sent is served before what its sender wrote is seen", by="group")
