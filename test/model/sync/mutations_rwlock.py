"""The rwlock. Read by mutations.py."""

STRUCTURES["rwlock"] = {
    "client": "sync/client_rwlock.c",
    "sources": ["src/sync/rwlock.c", "src/worker/reader_slot.c"] + WAIT,
    "files": ["src/sync/rwlock.c", "src/worker/reader_slot.h"],
}

_of("rwlock", "src/sync/rwlock.c",
    "    announce_locked(l, writer);\n    if (take_locked(l, writer)) {",
    "    if (take_locked(l, writer)) {",
    "a waiter queues without setting the word")
_of("rwlock", "src/sync/rwlock.c",
    "(word & QUEUED) && !has_readers(word - READER) && !(word & WRITER)",
    "(word & QUEUED) && !has_readers(word) && !(word & WRITER)",
    "the last reader does not wake the queue")
_of("rwlock", "src/sync/rwlock.c",
    "    if (in_slot || has_readers(word) || l->readers.first) {\n        return false;\n    }\n",
    "",
    "a writer enters while readers hold the lock")
_of("rwlock", "src/sync/rwlock.c",
    "        set_writer(l, 0);\n        add(l, -WRITER, memory_order_relaxed);\n    }\n    return false;",
    "    }\n    return false;",
    "a writer that had gone stays the writer")
_of("rwlock", "src/sync/rwlock.c",
    "        serve(l, writer != 0); /* waiters that only it blocked */\n",
    "",
    "when a writer gives up, the readers after it are forgotten")
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
    "a reader that takes its count back as the last one does not wake the queue")
_of("rwlock", "src/sync/rwlock.c",
    "        if (!admitted && !is_slot_reading(l) && !has_readers(load_acquire(l))) {",
    "        if (!admitted && !is_slot_reading(l)) {",
    "a writer is admitted while readers hold the lock")
_of("rwlock", "src/sync/rwlock.c",
    "        if (!old && node->status == TRY) {",
    "        if (!old) {",
    "a stackless task that cannot retry is told to retry")
_of("rwlock", "src/sync/rwlock.c",
    "        weft__waitlist_remove(writer ? &l->source.waiters : &l->readers, node);\n",
    "",
    "a waiter that gives up stays in the queue")

# Readers with a reader slot.
_of("rwlock", "src/sync/rwlock.c",
    "    weft__membarrier(); /* pairs: read, hide */\n",
    "",
    "a writer checks the reader slots without a barrier")
_of("rwlock", "src/sync/rwlock.c",
    "    if (in_slot || has_readers(word) || l->readers.first) {",
    "    if (has_readers(word) || l->readers.first) {",
    "a writer enters while a reader slot holds the lock")
_of("rwlock", "src/sync/rwlock.c",
    "        if (!admitted && !is_slot_reading(l) && !has_readers(load_acquire(l))) {",
    "        if (!admitted && !has_readers(load_acquire(l))) {",
    "a writer is admitted while a reader slot holds the lock")
_of("rwlock", "src/sync/rwlock.c",
    "    if (!weft__reader_slot_has(reader_slot, &l->word)) {\n        add(l, -(int64_t)slot, memory_order_relaxed);\n    }\n",
    "    add(l, -(int64_t)slot, memory_order_relaxed);\n",
    "a slot is removed while it holds the lock")
_of("rwlock", "src/sync/rwlock.c",
    "        serve_cold(l);\n",
    "",
    "clearing a reader slot does not wake the queue")
_of("rwlock", "src/sync/rwlock.c",
    "memory_order_acquire) != word, 0)) {\n        return read_retry(l, self, deadline);",
    "memory_order_acquire) == 0, 0)) {\n        return read_retry(l, self, deadline);",
    "setting a reader slot does not check the word again")
_of("rwlock", "src/sync/rwlock.c",
    "atomic_load_explicit(&l->word, memory_order_acquire) != word",
    "atomic_load_explicit(&l->word, memory_order_relaxed) != word",
    "setting a reader slot does not acquire")
_of("rwlock", "src/worker/reader_slot.h",
    "atomic_store_explicit(&reader_slot->word, word, memory_order_release);",
    "atomic_store_explicit(&reader_slot->word, word, memory_order_relaxed);",
    "clearing a reader slot does not release")
_of("rwlock", "src/worker/reader_slot.h",
    "return atomic_load_explicit(&reader_slot->word, memory_order_acquire) == word;",
    "return atomic_load_explicit(&reader_slot->word, memory_order_relaxed) == word;",
    "reading a reader slot does not acquire")
_of("rwlock", "src/worker/reader_slot.h",
    "        atomic_fetch_add_explicit(word, WEFT__READER_SLOT_UNIT, memory_order_release);\n        weft__reader_slot_set(reader_slot, NULL);",
    "        weft__reader_slot_set(reader_slot, NULL);\n        atomic_fetch_add_explicit(word, WEFT__READER_SLOT_UNIT, memory_order_release);",
    "a reader's slot is cleared before the reader is counted")
_of("rwlock", "src/sync/rwlock.c",
    "(word && (word != self->tag || weft__reader_slot_word(self) == &l->word))",
    "(word && word != self->tag)",
    "a writer overlooks its own thread's reader")
_of("rwlock", "src/sync/rwlock.c",
    "(word && (word != self->tag || weft__reader_slot_word(self) == &l->word))",
    "(word && ((word & ~(uint64_t)SLOT) || weft__reader_slot_word(self) == &l->word))",
    "a writer overlooks another thread's readers")
_of("rwlock", "src/sync/rwlock.c",
    "atomic_compare_exchange_strong_explicit(&l->word, &word, word | w->reader_slot->tag, memory_order_relaxed, memory_order_relaxed);",
    "atomic_store_explicit(&l->word, word | w->reader_slot->tag, memory_order_relaxed);",
    "setting a reader slot undoes other threads' changes of the word")
_of("rwlock", "src/sync/rwlock.c",
    "    return atomic_load_explicit(&l->word, memory_order_acquire);\n}\n\nstatic inline bool has_readers(",
    "    return atomic_load_explicit(&l->word, memory_order_relaxed);\n}\n\nstatic inline bool has_readers(",
    "admitting a writer does not acquire")
