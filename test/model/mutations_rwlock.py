"""The lock for readers and writers. Read by mutations.py."""

STRUCTURES["rwlock"] = {
    "client": "client_rwlock.c",
    "sources": ["src/sync/rwlock.c"] + WAIT,
    "files": ["src/sync/rwlock.c"],
}

_of("rwlock", "src/sync/rwlock.c",
    "    announce_locked(l);\n    if (take_locked(l, writer)) {",
    "    if (take_locked(l, writer)) {",
    "one queues up without a word")
_of("rwlock", "src/sync/rwlock.c",
    "(word & QUEUED) && !has_readers(word - READER) && !(word & WRITER)",
    "(word & QUEUED) && !has_readers(word) && !(word & WRITER)",
    "the last reader does not look after the queue")
_of("rwlock", "src/sync/rwlock.c",
    "    if (has_readers(word) || l->readers.first) {\n        return false;\n    }\n",
    "",
    "a writer goes in where readers are")
_of("rwlock", "src/sync/rwlock.c",
    "        set_writer(l, 0);\n        add(l, -WRITER, memory_order_relaxed);\n    }\n    return false;",
    "    }\n    return false;",
    "a writer that had gone stays the writer")
_of("rwlock", "src/sync/rwlock.c",
    "    serve(l, true); /* who waited for it alone */\n",
    "",
    "when a writer gives up, the readers behind it are forgotten")
_of("rwlock", "src/sync/rwlock.c",
    "if (add(l, -WRITER, memory_order_release) & QUEUED) {",
    "if (add(l, -WRITER, memory_order_relaxed) & QUEUED) {",
    "a writer does not release")
_of("rwlock", "src/sync/rwlock.c",
    "uint64_t word = add(l, -READER, memory_order_acq_rel);",
    "uint64_t word = add(l, -READER, memory_order_acquire);",
    "a reader does not release")
_of("rwlock", "src/sync/rwlock.c",
    "if (__builtin_expect(add(l, READER, memory_order_acquire) & (WRITER | QUEUED), 0)) {",
    "if (__builtin_expect(add(l, READER, memory_order_relaxed) & (WRITER | QUEUED), 0)) {",
    "a reader does not acquire")
_of("rwlock", "src/sync/rwlock.c",
    "    do {\n        leave_read(l);\n",
    "    do {\n        add(l, -READER, memory_order_relaxed);\n",
    "a ghost that was the last does not look after the queue")
_of("rwlock", "src/sync/rwlock.c",
    "        if (!admitted && !has_readers(load(l))) {",
    "        if (!admitted) {",
    "a writer is let in where readers are")
