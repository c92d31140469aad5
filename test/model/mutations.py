"""What `mutate` builds, and the one-line mutations that the clients must catch.

STRUCTURES: the client program of each structure, the product's sources that are linked to it, and the files
whose memory orders `mutate --weaken` tries.
MUTATIONS: the original text (exactly once in its file), its replacement, and the mistake that this makes.
`by` names another structure's client, where that client is the one that relies on the line.
"""

import glob
import os

# The sources of a fiber's wait: linked to every client of an object that fibers wait on.
WAIT = ["src/sync/source.c", "src/fiber/cancel.c", "src/wait/waiter.c", "src/idle/parker.c",
        "src/time/wheel.c", "src/lock/latch.c", "src/lock/lock.c"]

STRUCTURES = {
    # The explorer's own test.
    "litmus": {"client": "litmus.c", "sources": ["src/lock/lock.c"], "files": []},
    "lock": {
        "client": "client_lock.c",
        "sources": ["src/lock/lock.c"],
        "files": ["src/lock/lock.h", "src/lock/lock.c"],
    },
    "ring": {
        "client": "queue/client_ring.c",
        "sources": ["src/queue/ring.c"],
        "files": ["src/queue/ring.h", "src/queue/ring.c"],
    },
    "fresh": {
        "client": "queue/client_fresh.c",
        "sources": ["src/queue/fresh.c"],
        "files": ["src/queue/fresh.h", "src/queue/fresh.c"],
    },
    "inbox": {
        "client": "queue/client_inbox.c",
        "sources": ["src/idle/parker.c"],
        "files": ["src/queue/inbox.h"],
    },
    "global": {
        "client": "queue/client_global.c",
        "sources": ["src/queue/global.c", "src/lock/lock.c"],
        "files": ["src/queue/global.h", "src/queue/global.c"],
    },
    "task": {
        "client": "sched/client_task.c",
        "sources": [],
        "files": ["src/task/task.h"],
    },
    "parker": {
        "client": "sched/client_parker.c",
        "sources": ["src/idle/parker.c"],
        "files": ["src/idle/parker.h", "src/idle/parker.c"],
    },
    "idle": {
        "client": "sched/client_idle.c",
        "sources": ["src/idle/idle.c", "src/idle/parker.c", "src/lock/lock.c",
                    "src/queue/global.c", "src/queue/fresh.c", "src/queue/ring.c"],
        "files": ["src/idle/idle.h", "src/idle/idle.c", "src/queue/global.h", "src/queue/global.c",
                  "src/queue/ring.h", "src/queue/fresh.h"],
    },
    "park": {
        "client": "sched/client_park.c",
        "sources": ["src/fiber/park.c", "src/fiber/cancel.c", "src/wait/waiter.c", "src/idle/parker.c",
                    "src/time/wheel.c", "src/lock/latch.c", "src/lock/lock.c"],
        "files": ["src/fiber/park.c", "src/fiber/cancel.c", "src/wait/waiter.h", "src/wait/waiter.c",
                  "src/task/ident.h"],
    },
}

MUTATIONS = []


def _of(structure, file, original, replacement, why, by=None):
    MUTATIONS.append({"structure": structure, "file": file, "original": original,
                      "replacement": replacement, "why": why, "by": by or structure})


# --- lock --------------------------------------------------------------------

_of("lock", "src/lock/lock.h",
    "memory_order_acquire, /* pairs: weft__unlock */",
    "memory_order_relaxed,",
    "try does not acquire")
_of("lock", "src/lock/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed) == 2",
    "unlock does not release")
_of("lock", "src/lock/lock.h",
    "memory_order_release) == 2) {",
    "memory_order_release) == 3) {",
    "unlock never wakes")
_of("lock", "src/lock/lock.c",
    "atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0",
    "atomic_exchange_explicit(&lock->word, 2, memory_order_relaxed) != 0",
    "a taker that slept does not acquire")
_of("lock", "src/lock/lock.c",
    "atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0",
    "atomic_exchange_explicit(&lock->word, 1, memory_order_acquire) != 0",
    "a sleeper does not mark the lock as contended")
_of("lock", "src/lock/lock.c",
    "== 0 && weft__lock_try(lock)",
    "== 0 || weft__lock_try(lock)",
    "a spinner takes a lock that it only saw free")
_of("lock", "src/lock/lock.c",
    "weft__futex_wait(&lock->word, 2, INT64_MAX);",
    "weft__futex_wait(&lock->word, atomic_load_explicit(&lock->word, memory_order_relaxed), INT64_MAX);",
    "sleeps whatever the value of the word")

# --- ring --------------------------------------------------------------------

_of("ring", "src/queue/ring.h",
    "atomic_store_explicit(&ring->tail, tail + 1, order);",
    "atomic_store_explicit(&ring->tail, tail + 1, memory_order_relaxed);",
    "push does not release the slot")
_of("ring", "src/queue/ring.h",
    "atomic_store_explicit(&ring->tail, tail + count, order);",
    "atomic_store_explicit(&ring->tail, tail + count, memory_order_relaxed);",
    "many items are published before their slots are written")
_of("ring", "src/queue/ring.h",
    "uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire); /* pairs: claims of head too */",
    "uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);",
    "a push of many overwrites slots that are still read")
_of("ring", "src/queue/ring.h",
    "return ring->mask + 1 - (tail - head);",
    "return ring->mask + 2 - (tail - head);",
    "accepts one item more than there are slots")
_of("ring", "src/queue/ring.c",
    "uint64_t tail = atomic_load_explicit(&from->tail, memory_order_acquire);",
    "uint64_t tail = atomic_load_explicit(&from->tail, memory_order_relaxed);",
    "a thief does not acquire the slots")
_of("ring", "src/queue/ring.c",
    "memory_order_release, memory_order_relaxed)) {\n            atomic_store_explicit(&to->tail",
    "memory_order_relaxed, memory_order_relaxed)) {\n            atomic_store_explicit(&to->tail",
    "a thief's reads may come after its claim")
_of("ring", "src/queue/ring.h",
    "uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire); /* pairs: claims of head */",
    "uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);",
    "the owner overwrites slots that are still read")
_of("ring", "src/queue/ring.c",
    "atomic_store_explicit(&to->tail, to_tail + n - 1, memory_order_release);",
    "atomic_store_explicit(&to->tail, to_tail + n - 1, memory_order_relaxed);",
    "stolen items are not released to the next thief")
_of("ring", "src/queue/ring.h",
    "if (tail - head > ring->mask) {",
    "if (tail - head > ring->mask + 1) {",
    "accepts one item more than there are slots")
_of("ring", "src/queue/ring.h",
    "if (atomic_compare_exchange_weak_explicit(&ring->head, &head, head + 1, memory_order_relaxed,\n"
    "                                                  memory_order_relaxed)) {",
    "atomic_store_explicit(&ring->head, head + 1, memory_order_relaxed);\n"
    "        if (item) {",
    "the owner pops without a claim")
_of("ring", "src/queue/ring.c",
    "if (n > from->mask + 1) {",
    "if (n == UINT64_MAX / 2) {",
    "a tail older than the head is trusted")
_of("ring", "src/queue/ring.c",
    "n = room + 1; /*",
    "n = room + 2; /*",
    "a thief takes more than its ring has space for")
_of("ring", "src/queue/ring.c",
    "n -= n / 2;",
    "n += n % 2;",
    "a thief takes more than half")
_of("ring", "src/queue/ring.c",
    "weft__chain_push(chain, slot_read(ring, head + i));",
    "weft__chain_push(chain, slot_read(ring, head + n + i));",
    "spill takes items that it did not claim")

# --- fresh -------------------------------------------------------------------

_of("fresh", "src/queue/fresh.h",
    "atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_seq_cst); /* pairs: take_oldest */",
    "atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_relaxed);",
    "push does not release the item")
_of("fresh", "src/queue/fresh.h",
    "atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_seq_cst); /* pairs: take_oldest */",
    "atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_release);",
    "push is not in the seq_cst order", by="idle")
_of("fresh", "src/queue/fresh.h",
    "atomic_store_explicit(&fresh->bottom, bottom, memory_order_seq_cst);",
    "atomic_store_explicit(&fresh->bottom, bottom, memory_order_release);",
    "take: the store of bottom may pass the load of top")
_of("fresh", "src/queue/fresh.h",
    "top = atomic_load_explicit(&fresh->top, memory_order_seq_cst);\n    struct weft__link *item = NULL;",
    "top = atomic_load_explicit(&fresh->top, memory_order_acquire);\n    struct weft__link *item = NULL;",
    "take: an old top is read")
_of("fresh", "src/queue/fresh.c",
    "uint64_t bottom = atomic_load_explicit(&fresh->bottom, memory_order_seq_cst);",
    "uint64_t bottom = atomic_load_explicit(&fresh->bottom, memory_order_acquire);",
    "a thief reads an old bottom")
_of("fresh", "src/queue/fresh.c",
    "uint64_t top = atomic_load_explicit(&fresh->top, memory_order_seq_cst);",
    "uint64_t top = atomic_load_explicit(&fresh->top, memory_order_relaxed);",
    "a thief reads bottom before top")
_of("fresh", "src/queue/fresh.c",
    "&top, top + 1, memory_order_seq_cst,",
    "&top, top + 1, memory_order_relaxed,",
    "a thief's claim is not in the seq_cst order")
_of("fresh", "src/queue/fresh.c",
    "atomic_store_explicit(&fresh->buffer, buffer, memory_order_release);",
    "atomic_store_explicit(&fresh->buffer, buffer, memory_order_relaxed);",
    "a grown buffer is published before it is filled")
_of("fresh", "src/queue/fresh.c",
    "atomic_load_explicit(&fresh->buffer, memory_order_acquire);",
    "atomic_load_explicit(&fresh->buffer, memory_order_relaxed);",
    "a thief does not acquire the buffer")
_of("fresh", "src/queue/fresh.c",
    "uint64_t top = atomic_load_explicit(&fresh->top, memory_order_acquire);",
    "uint64_t top = atomic_load_explicit(&fresh->top, memory_order_relaxed);",
    "the owner overwrites slots that are still read")
_of("fresh", "src/queue/fresh.h",
    "if (bottom != top) {",
    "if (bottom != top + 1) {",
    "the last item but one is raced for, the last is not")
_of("fresh", "src/queue/fresh.h",
    "atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_release);\n    return item;",
    "return item;",
    "bottom is not restored")
_of("fresh", "src/queue/fresh.c",
    "buffer->older = old;",
    "weft__free(old);",
    "growing frees a buffer that a thief may read")
_of("fresh", "src/queue/fresh.c",
    "atomic_init(&buffer->slots[i & buffer->mask],",
    "atomic_init(&buffer->slots[i & old->mask],",
    "growing puts items into the old slots")

# --- inbox -------------------------------------------------------------------

_of("inbox", "src/queue/inbox.h",
    "memory_order_seq_cst, /* pairs: drain_local */",
    "memory_order_relaxed,",
    "push does not release the item")
_of("inbox", "src/queue/inbox.h",
    "atomic_exchange_explicit(&inbox->newest, NULL, memory_order_acquire);",
    "atomic_exchange_explicit(&inbox->newest, NULL, memory_order_relaxed);",
    "drain does not acquire the items")
_of("inbox", "src/queue/inbox.h",
    "return newest == NULL;",
    "return item->next != NULL;",
    "the producer that makes the inbox non-empty does not wake")
_of("inbox", "src/queue/inbox.h",
    "atomic_exchange_explicit(&inbox->newest, NULL, memory_order_acquire);",
    "atomic_load_explicit(&inbox->newest, memory_order_acquire);\n"
    "    atomic_store_explicit(&inbox->newest, NULL, memory_order_relaxed);",
    "drain in two steps")
_of("inbox", "src/queue/inbox.h",
    "    do {\n        item->next = newest;",
    "    item->next = newest;\n    do {",
    "a retried push keeps the old link")
_of("inbox", "src/queue/inbox.h",
    "    struct weft__link *oldest = NULL;\n    while (item) {",
    "    struct weft__link *oldest = item;\n    while (item && !oldest) {",
    "drain does not reverse the stack")

# --- global ------------------------------------------------------------------

_of("global", "src/queue/global.c",
    "before ? memory_order_relaxed : memory_order_seq_cst);",
    "before ? memory_order_relaxed : memory_order_release);",
    "the push into an empty queue is not in the seq_cst order", by="idle")
_of("global", "src/queue/global.h",
    "return atomic_load_explicit(&global->length, memory_order_seq_cst);",
    "return atomic_load_explicit(&global->length, memory_order_acquire);",
    "the sleeper's check reads an old length", by="idle")
_of("global", "src/queue/global.c",
    "    weft__lock(&global->lock);\n    uint64_t before = count_locked(global);\n    append_locked(",
    "    weft__lock_try(&global->lock);\n    uint64_t before = count_locked(global);\n    append_locked(",
    "push does not wait for the lock")
_of("global", "src/queue/global.c",
    "out[n] = weft__chain_pop(&global->chain);",
    "out[n] = global->chain.head;",
    "taken items stay in the chain")
_of("global", "src/queue/global.c",
    "for (; n < max && global->chain.head; n++) {",
    "for (; n <= max && global->chain.head; n++) {",
    "a batch is one too long")
_of("global", "src/queue/global.c",
    "    global->chain.tail = chain->tail;\n",
    "",
    "the tail of an appended chain is lost")
_of("global", "src/queue/global.c",
    "atomic_store_explicit(&global->length, count_locked(global), memory_order_relaxed);\n    weft__unlock(",
    "weft__unlock(",
    "take does not correct the length")

# --- task --------------------------------------------------------------------

_of("task", "src/task/task.h",
    "weft__word_fired(word, to, reason),\n"
    "                                                  memory_order_acq_rel,",
    "weft__word_fired(word, to, reason),\n"
    "                                                  memory_order_acquire,",
    "fire does not release what the waker wrote")
_of("task", "src/task/task.h",
    "weft__word_fired(word, to, reason),\n"
    "                                                  memory_order_acq_rel,",
    "weft__word_fired(word, to, reason),\n"
    "                                                  memory_order_release,",
    "fire does not acquire the frame")
_of("task", "src/task/task.h",
    "memory_order_acquire, memory_order_relaxed); /* the frame. pairs: settle */",
    "memory_order_relaxed, memory_order_relaxed);",
    "fire in one step does not acquire the frame")
_of("task", "src/task/task.h",
    "    return word >> WEFT__TICKET_SHIFT == ticket && weft__word_state(word) == WEFT__TASK_WAITING &&",
    "    return word >> WEFT__TICKET_SHIFT >= ticket && weft__word_state(word) == WEFT__TASK_WAITING &&",
    "a late fire in one step ends another wait")
_of("task", "src/task/task.h",
    "    return word >> WEFT__TICKET_SHIFT == ticket && weft__word_state(word) == WEFT__TASK_WAITING &&",
    "    return word >> WEFT__TICKET_SHIFT == ticket && (weft__word_state(word) == WEFT__TASK_WAITING || weft__word_state(word) == WEFT__TASK_ARMED) &&",
    "fire in one step: a task is queued while its stack is in use")
_of("task", "src/task/task.h",
    "memory_order_seq_cst, /* pairs: fire, ticket */",
    "memory_order_relaxed,",
    "settle does not release the frame")
_of("task", "src/task/task.h",
    "memory_order_seq_cst, /* pairs: fire, ticket */",
    "memory_order_release,",
    "settle: the following check may miss a cancel", by="park")
_of("task", "src/task/task.h",
    "word = atomic_load_explicit(&task->state, memory_order_acquire); /* pairs: fire */\n"
    "    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_FIRED);\n"
    "    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_READY),",
    "word = atomic_load_explicit(&task->state, memory_order_relaxed);\n"
    "    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_READY),",
    "settle does not acquire what the waker wrote")
_of("task", "src/task/task.h",
    "atomic_store_explicit(&task->state, armed, memory_order_seq_cst);",
    "atomic_store_explicit(&task->state, armed, memory_order_release);",
    "arm: the following check may miss a flag")
_of("task", "src/task/task.h",
    "uint64_t word = atomic_load_explicit(&task->state, memory_order_seq_cst); /* pairs: arm */",
    "uint64_t word = atomic_load_explicit(&task->state, memory_order_acquire);",
    "the thread that sets a flag misses that the task has armed")
_of("task", "src/task/task.h",
    "to = WEFT__TASK_FIRED;",
    "to = WEFT__TASK_READY;",
    "a task is queued while its stack is in use")
_of("task", "src/task/task.h",
    "while (word >> WEFT__TICKET_SHIFT == ticket) {",
    "while (word >> WEFT__TICKET_SHIFT >= ticket) {",
    "a late fire ends another wait")
_of("task", "src/task/task.h",
    "uint64_t ticket = (word >> WEFT__TICKET_SHIFT) + 1;",
    "uint64_t ticket = (word >> WEFT__TICKET_SHIFT);",
    "all waits have one ticket")
_of("task", "src/task/task.h",
    "weft__word_with(armed, WEFT__TASK_WAITING), memory_order_seq_cst, /* pairs: fire, ticket */",
    "weft__word_with(armed, WEFT__TASK_ARMED), memory_order_seq_cst,",
    "settle does not record that the switch is complete")

_of("task", "src/task/task.h",
    "atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_RUNNING),\n"
    "                          memory_order_release);",
    "atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_RUNNING),\n"
    "                          memory_order_relaxed);",
    "a running task is seen before its stack")

_of("task", "src/task/task.h",
    "weft__word_with(word, WEFT__TASK_HELD),\n"
    "                                                  memory_order_acquire,",
    "weft__word_with(word, WEFT__TASK_HELD),\n"
    "                                                  memory_order_relaxed,",
    "hold does not acquire the frame")
_of("task", "src/task/task.h",
    "memory_order_release, /* pairs: fire, hold */",
    "memory_order_relaxed,",
    "a viewer still reads the frame when the task resumes")
_of("task", "src/task/task.h",
    "word = atomic_load_explicit(&task->state, memory_order_acquire); /* pairs: fire on HELD */",
    "word = atomic_load_explicit(&task->state, memory_order_relaxed);",
    "unhold does not acquire what the waker wrote")
_of("task", "src/task/task.h",
    "to = WEFT__TASK_WOKEN;",
    "to = WEFT__TASK_READY;",
    "a task is queued while it is held")
_of("task", "src/task/task.h",
    "    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_WOKEN);\n"
    "    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_READY),\n"
    "                          memory_order_relaxed);\n"
    "    return true;",
    "    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_READY),\n"
    "                          memory_order_relaxed);\n"
    "    return false;",
    "a task that was fired while it was held is never queued")
_of("task", "src/task/task.h",
    "while (weft__word_state(word) == WEFT__TASK_WAITING) {",
    "while (weft__word_state(word) == WEFT__TASK_WAITING || weft__word_state(word) == WEFT__TASK_ARMED) {",
    "a task is held while its stack is in use")
_of("task", "src/task/task.h",
    "            to = WEFT__TASK_WOKEN;\n        } else {",
    "            break;\n        } else {",
    "a wake of a held task is lost")

_of("task", "src/task/task.h",
    "    atomic_store_explicit(&task->state, resting, memory_order_seq_cst); /* pairs: hold, ticket */\n",
    "    atomic_store_explicit(&task->state, resting, memory_order_release);\n",
    "arm_settled: the following check may miss a cancel")
_of("task", "src/task/task.h",
    "    atomic_store_explicit(&task->state, resting, memory_order_seq_cst); /* pairs: hold, ticket */\n",
    "    atomic_store_explicit(&task->state, resting, memory_order_relaxed);\n",
    "arm_settled does not release the frame")
_of("task", "src/task/task.h",
    "((uint64_t)1 << WEFT__TICKET_SHIFT | (uint64_t)WEFT__WAIT_PLAIN",
    "((uint64_t)WEFT__WAIT_PLAIN",
    "all settled waits have one ticket")
_of("task", "src/task/task.h",
    "memory_order_acquire, memory_order_relaxed); /* pairs: arm_settled, settle, unhold */",
    "memory_order_relaxed, memory_order_relaxed);",
    "a signal does not wait for a viewer that still reads the frame")
_of("task", "src/task/task.h",
    "memory_order_acquire, /* pairs: unhold */",
    "memory_order_relaxed,",
    "taking a settled wait back does not wait for a viewer that still reads the frame")
_of("task", "src/task/task.h",
    "        if (weft__word_state(word) != WEFT__TASK_WAITING) {\n            return false;\n        }\n",
    "",
    "a settled wait that has ended is taken back")

# --- parker ------------------------------------------------------------------

_of("parker", "src/idle/parker.c",
    "if (atomic_exchange_explicit(&parker->word, WEFT__PARKER_NOTIFIED, memory_order_seq_cst) !=",
    "if (atomic_exchange_explicit(&parker->word, WEFT__PARKER_NOTIFIED, memory_order_relaxed) !=",
    "wake does not release what was published")
_of("parker", "src/idle/parker.c",
    "atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_acquire) ==",
    "atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_relaxed) ==",
    "the woken owner does not acquire")
_of("parker", "src/idle/parker.c",
    "/* pairs: weft__parker_wake */\n"
    "    atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_acquire);",
    "atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_relaxed);",
    "an owner that finds a wake does not acquire")
_of("parker", "src/idle/parker.c",
    "!=\n        WEFT__PARKER_PARKED) {",
    "==\n        WEFT__PARKER_PARKED) {",
    "wakes only when the owner does not sleep")
_of("parker", "src/idle/parker.c",
    "while (rc == 0 &&",
    "if (rc == 0 &&",
    "a spurious wake-up of the sleep ends the park")
_of("parker", "src/idle/parker.c",
    "uint32_t empty = WEFT__PARKER_EMPTY;",
    "uint32_t empty = atomic_load_explicit(&parker->word, memory_order_relaxed);",
    "an early wake is overwritten")
_of("parker", "src/idle/parker.c",
    "        atomic_store_explicit(&parker->host_fd, -1, memory_order_relaxed);\n        return false;",
    "        return false;",
    "a host that did not enter keeps its descriptor")
_of("parker", "src/idle/parker.c",
    "/* Before PARKED: a waker that sees PARKED sees the descriptor too (both by the same CAS). */\n"
    "    atomic_store_explicit(&parker->host_fd, fd, memory_order_relaxed);\n"
    "    if (!prepare(parker)) {",
    "bool parked = prepare(parker);\n"
    "    atomic_store_explicit(&parker->host_fd, fd, memory_order_relaxed);\n"
    "    if (!parked) {",
    "the descriptor is published after PARKED")

# --- idle --------------------------------------------------------------------

_of("idle", "src/idle/idle.h",
    "uint32_t word = atomic_load_explicit(&idle->word, memory_order_seq_cst); /* pairs: enter */",
    "uint32_t word = atomic_load_explicit(&idle->word, memory_order_acquire);",
    "submit reads an old word")
_of("idle", "src/idle/idle.c",
    "1 - (searching ? SEARCHING : 0), memory_order_seq_cst);",
    "1 - (searching ? SEARCHING : 0), memory_order_acq_rel);",
    "enter is not in the seq_cst order")
_of("idle", "src/idle/idle.c",
    "1 - (searching ? SEARCHING : 0), memory_order_seq_cst);",
    "1, memory_order_seq_cst);",
    "a searcher that sleeps still counts as searching")
_of("idle", "src/idle/idle.c",
    "memory_order_seq_cst);\n    weft__idle_notify(idle);",
    "memory_order_seq_cst);",
    "a searcher that found work wakes no worker")
_of("idle", "src/idle/idle.c",
    "    weft__parker_wake(&sleeper->parker);\n",
    "",
    "the chosen sleeper is not woken")
_of("idle", "src/idle/idle.c",
    "if (!sleeper || word >= SEARCHING) {",
    "if (!sleeper || word < SEARCHING) {",
    "wakes only when it need not")
_of("idle", "src/idle/idle.c",
    "sleeper->searching ? SEARCHING - 1 : -1u,",
    "-1u,",
    "the woken worker is not counted as searching")
_of("idle", "src/idle/idle.c",
    "    if (sleeper->listed) {\n",
    "    if (true) {\n",
    "a worker that was woken leaves twice")
_of("idle", "src/idle/idle.h",
    "return word != 0 && word < 0x10000;",
    "return word == 1;",
    "with two sleepers no worker is woken")

# --- park, waiter, ident -------------------------------------------------------

_of("park", "src/task/ident.h",
    "memory_order_seq_cst, /* pairs: weft__ident_unlock */",
    "memory_order_acq_rel,",
    "a permit is not in the seq_cst order")
_of("park", "src/task/ident.h",
    "return atomic_load_explicit(&task->ident, memory_order_seq_cst); /* pairs: weft__ident_lock */",
    "return atomic_load_explicit(&task->ident, memory_order_acquire);",
    "the armed task reads old flags")
_of("park", "src/task/ident.h",
    "memory_order_release); /* pairs: weft__ident_lock */",
    "memory_order_relaxed);",
    "the ident lock does not release")
_of("park", "src/task/ident.h",
    "uint64_t generation = weft__ident_generation(ident) + 1;",
    "uint64_t generation = weft__ident_generation(ident);",
    "a stale handle is taken for the next fiber")
_of("park", "src/fiber/park.c",
    "ident &= ~(uint64_t)WEFT__IDENT_PERMIT; /* this wait has used it */",
    "(void)ident;",
    "an unpark that ended a wait also leaves its permit")
_of("park", "src/fiber/park.c",
    " && (kind & ~WEFT__WAIT_SHIELDED) == WEFT__WAIT_PARK) {",
    ") {",
    "an unpark ends any wait of the fiber")
_of("park", "src/wait/waiter.c",
    "memory_order_seq_cst, /* pairs: should_exit, park */",
    "memory_order_relaxed,",
    "firing a thread does not release the value")
_of("park", "src/wait/waiter.c",
    "seen = atomic_load_explicit(word, memory_order_acquire); /* pairs: fire_plain */",
    "seen = atomic_load_explicit(word, memory_order_relaxed);",
    "the fired thread does not acquire the value")
_of("park", "src/wait/waiter.c",
    "word, &asleep, reason, memory_order_seq_cst, /* pairs: sleep_on */",
    "word, &asleep, reason, memory_order_relaxed,",
    "firing a thread that sleeps does not release the value")
_of("park", "src/wait/waiter.c",
    "        weft__futex_wake(word, 1);\n",
    "",
    "a thread that sleeps is not woken")
_of("park", "src/wait/waiter.c",
    "if (fire_word(word, reason)) {",
    "if (fire_word(word, reason) || atomic_load_explicit(word, memory_order_relaxed) == ASLEEP) {",
    "a thread that is about to sleep is taken for a thread that spins")
_of("park", "src/wait/waiter.c",
    "if (weft__futex_wait(word, ASLEEP, deadline) == -ETIMEDOUT) {",
    "if (weft__futex_wait(word, 0, deadline) == -ETIMEDOUT) {",
    "a thread sleeps on a word other than the one that wakes it")
_of("park", "src/wait/waiter.c",
    "        weft__wheel_cancel(wheel, &node->timer);\n",
    "",
    "the timer of a finished wait stays on the stack")
_of("park", "src/wait/waiter.h",
    "return __builtin_expect(!(flags & WEFT__IDENT_ENDS_WAITS), 1) ||",
    "return true ||",
    "settle does not check for a cancel that came before the end of the switch")

# --- the objects one waits on, one file each -----------------------------------------

for _path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*", "mutations_*.py"))):
    with open(_path) as _file:
        exec(compile(_file.read(), _path, "exec"))
