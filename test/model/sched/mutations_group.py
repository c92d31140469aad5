"""The intake of a group and the group scheduler that serves it. Read by mutations.py."""

STRUCTURES["group"] = {
    "client": "sched/client_group.c",
    "sources": ["src/sched/group_scheduler.c", "src/idle/parker.c"],
    "files": ["src/queue/intake.h", "src/sched/group_scheduler.c"],
}

_of("group", "src/queue/intake.h",
    "        if (word & WEFT__INTAKE_CLOSED) {\n            return false;\n        }\n",
    "",
    "a task is accepted after the end")
_of("group", "src/queue/intake.h",
    "&intake->word, &word, word + WEFT__INTAKE_ONE,",
    "&intake->word, &word, word,",
    "a task in flight is not counted")
_of("group", "src/queue/intake.h",
    "    return atomic_compare_exchange_strong_explicit(&intake->word, &nothing, WEFT__INTAKE_CLOSED,\n"
    "                                                   memory_order_relaxed, memory_order_relaxed);\n",
    "    (void)nothing;\n"
    "    atomic_store_explicit(&intake->word, WEFT__INTAKE_CLOSED, memory_order_relaxed);\n"
    "    return true;\n",
    "the intake is closed while a task is in flight")
_of("group", "src/queue/intake.h",
    "    atomic_fetch_sub_explicit(&intake->word, WEFT__INTAKE_ONE, memory_order_relaxed);\n",
    "    atomic_store_explicit(&intake->word, 0, memory_order_relaxed);\n",
    "an arrival counts other tasks as arrived, too")
_of("group", "src/sched/group_scheduler.c",
    "            weft__group_sched_add_ready(r, queues); /* to be settled after its turn, even an empty one */\n",
    "",
    "a group is not settled after a posted function")
_of("group", "src/sched/group_scheduler.c",
    "            weft__group_sched_start(r, task);\n            weft__intake_arrive(&queues->intake);\n",
    "            weft__group_sched_start(r, task);\n",
    "a fiber from outside never arrives")
_of("group", "src/sched/group_scheduler.c",
    "            weft__group_sched_add_ready(r, queues); /* to be settled after its turn, even an empty one */\n",
    "            weft__group_sched_add_ready(r, command->queues);\n",
    "a posted function is read after it was called")
_of("group", "src/sched/group_scheduler.c",
    "    if (weft__inbox_push_remote(&r->commands, &command->link)) {\n"
    "        weft__parker_wake(&r->worker->sleeper.parker);\n    }\n",
    "    weft__inbox_push_remote(&r->commands, &command->link);\n",
    "a sleeping dispatcher is not woken")
_of("group", "src/sched/group_scheduler.c",
    "        queues->live++;\n",
    "        queues->live += 2;\n",
    "a fiber is counted twice")
_of("group", "src/queue/inbox.h",
    "        &inbox->newest, NULL, memory_order_acquire); /* pairs: push_remote */\n",
    "        &inbox->newest, NULL, memory_order_relaxed);\n",
    "a task runs before its sender's writes are visible", by="group")
