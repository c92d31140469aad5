"""The timer with a callback, the front of the wheel and its lock. Read by mutations.py."""

STRUCTURES["timer"] = {
    "client": "sched/client_timer.c",
    "sources": ["src/sched/timer.c", "src/idle/idle.c"] + WAIT,
    "files": ["src/sched/timer.c", "src/time/wheel.h", "src/time/wheel.c", "src/lock/latch.h"],
}

_of("timer", "src/lock/latch.h",
    "memory_order_release); /* pairs: try */",
    "memory_order_relaxed);",
    "the lock does not release what was done under it")
_of("timer", "src/lock/latch.h",
    "memory_order_acquire) == 0; /* pairs: unlock */",
    "memory_order_relaxed) == 0;",
    "the lock does not acquire")
_of("timer", "src/sched/timer.c",
    "    weft__wheel_publish(&home->wheel);\n",
    "",
    "setting a timer is not ordered before the check for sleepers")
_of("timer", "src/sched/timer.c",
    "    weft__parker_wake(&home->sleeper.parker);\n",
    "",
    "the home worker of an earlier timer sleeps on")
_of("timer", "src/sched/timer.c",
    "        weft__idle_notify(&home->pool->idle);\n",
    "",
    "no worker stands in for an absent home worker")
_of("timer", "src/sched/timer.c",
    "    a->run = &firing->run;\n",
    "",
    "the running state is not visible")
_of("timer", "src/sched/timer.c",
    "    if (!run->gone) {\n        finish(a, run, times, now);\n    }\n",
    "    finish(a, run, times, now);\n",
    "the timer is touched after its callback released it")
_of("timer", "src/sched/timer.c",
    "        a->again = true;\n",
    "",
    "a set during the callback is lost")
_of("timer", "src/sched/timer.c",
    "        a->again = false;\n        a->repeat = WEFT_TIMER_ONCE;\n        return WEFT_TIMER_RUNNING;",
    "        a->again = false;\n        return WEFT_TIMER_RUNNING;",
    "a periodic timer continues after a cancel that met its callback")
_of("timer", "src/sched/timer.c",
    "    while ((node = weft__waitlist_pop(&a->waiters))) {\n        weft__node_notify(node, 0, &ready);\n    }\n",
    "",
    "the waiter for the callback is not notified")
_of("timer", "src/sched/timer.c",
    "    if (node.linked) {\n        weft__waitlist_remove(&a->waiters, &node);\n    }\n",
    "",
    "a waiter that gave up leaves its node linked")
_of("timer", "src/time/wheel.c",
    "    weft__wheel_flush_front(wheel);\n    wheel->halt = false;\n",
    "    wheel->halt = false;\n",
    "the front does not expire")
