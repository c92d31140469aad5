"""The mutex. Read by mutations.py."""

STRUCTURES["mutex"] = {
    "client": "sync/client_mutex.c",
    "sources": ["src/sync/mutex.c"] + WAIT,
    "files": ["src/sync/mutex.c"],
}

_of("mutex", "src/sync/mutex.c",
    "while ((word & WAITERS) && (!(word & WOKEN) || ++m->skipped >= MAX_SKIPS)) {",
    "if ((word & WAITERS) && (!(word & WOKEN) || ++m->skipped >= MAX_SKIPS)) {",
    "an unlock that woke no waiter does not check who came meanwhile")
_of("mutex", "src/sync/mutex.c",
    "        if (!holder_in(word)) {\n            return false;\n        }\n",
    "",
    "a locker queues for a free lock")
_of("mutex", "src/sync/mutex.c",
    "return attempt->awake ? word & ~(uint64_t)WOKEN : word;",
    "return word;",
    "a woken waiter leaves WOKEN set")
_of("mutex", "src/sync/mutex.c",
    "        set_locked(m, self, 0, old ? 0 : WOKEN);\n",
    "",
    "a waiter that had gone stays the holder, or woken")
_of("mutex", "src/sync/mutex.c",
    "    weft__mutex_finish(m, &node);\n    return weft__reason_errno(reason);",
    "    return weft__reason_errno(reason);",
    "a wait that ended leaves its node linked")
_of("mutex", "src/sync/mutex.c",
    "memory_order_release, /* pairs: weft_mutex_lock, lock_slow */",
    "memory_order_relaxed,",
    "unlock does not release")
_of("mutex", "src/sync/mutex.c",
    "memory_order_acquire, /* pairs: weft_mutex_unlock, unlock_slow */",
    "memory_order_relaxed,",
    "lock does not acquire")
_of("mutex", "src/sync/mutex.c",
    "while (!step(m, &word, word & FLAGS, memory_order_release));",
    "while (!step(m, &word, word & FLAGS, memory_order_relaxed));",
    "an unlock with waiters does not release")
_of("mutex", "src/sync/mutex.c",
    "    update_waiters_flag_locked(m);\n    weft__source_unlock(&m->source);\n    return handed;",
    "    weft__source_unlock(&m->source);\n    update_waiters_flag_locked(m);\n    return handed;",
    "an unlock touches the mutex after another may have freed it")
_of("mutex", "src/sync/mutex.c",
    "set_locked(m, old ? (uint64_t)(uintptr_t)node->item : self, old ? 0 : WOKEN, 0);",
    "set_locked(m, self, old ? 0 : WOKEN, 0);",
    "the waiter that is handed the lock is not recorded as its holder")
