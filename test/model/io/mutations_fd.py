"""Readiness of descriptors, and requests to a driver. Read by mutations.py."""

STRUCTURES["fd"] = {
    "client": "io/client_fd.c",
    "sources": ["src/io/fd.c", "src/io/driver.c", "src/base/error.c", "src/lock/lock.c", "src/lock/latch.c"],
    "files": ["src/io/fd.h", "src/io/edge.h", "src/io/fd.c"],
}

_of("fd", "src/io/fd.c",
    "    return !err && atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) != edges\n               ? -EAGAIN\n               : err;",
    "    (void)edges, (void)side;\n    return err;",
    "a registration does not check for an edge under the lock")
_of("fd", "src/io/edge.h",
    "                atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) == edges &&\n",
    "",
    "a fiber does not check for an edge under the lock")
_of("fd", "src/io/edge.h",
    "            weft__fd_generation(record) == generation &&\n",
    "",
    "a fiber's wait for the old descriptor is linked to the new one")
_of("fd", "src/io/edge.h",
    "!weft__fd_slot_waiter(at) && weft__fd_is(record, WEFT__FD_WATCHED)",
    "!weft__fd_slot_waiter(at)",
    "a fiber waits without a driver")
_of("fd", "src/io/edge.h",
    "!weft__fd_slot_waiter(at) && weft__fd_is(record",
    "weft__fd_is(record",
    "a fiber takes the slot of another fiber")
_of("fd", "src/io/fd.c",
    "    op->linked = record->listed = true;\n",
    "    op->linked = true;\n",
    "a list is not checked")
_of("fd", "src/io/fd.c",
    "    if (weft__fd_generation(record) != generation) {\n        return -EAGAIN;\n    }\n",
    "    (void)generation;\n",
    "a wait for the old descriptor is linked to the new one")
_of("fd", "src/io/fd.c",
    "    int err = weft__fd_is(record, WEFT__FD_REGISTERED) ? driver->kind->watch(driver, record)\n                                                  : WEFT__CLOSED;\n",
    "    int err = driver->kind->watch(driver, record);\n",
    "a descriptor that was removed is watched")
_of("fd", "src/io/edge.h",
    "atomic_load_explicit(edges, memory_order_relaxed) + 1,",
    "atomic_load_explicit(edges, memory_order_relaxed),",
    "an edge is not counted")
_of("fd", "src/io/fd.c",
    "    complete_side_locked(record, side, 0, here, done);\n",
    "    (void)record, (void)side, (void)here, (void)done;\n",
    "an edge wakes no listed waiter")
_of("fd", "src/io/edge.h",
    "    } else {\n        weft__fd_wake_locked(record, side, here, record, done);\n    }\n",
    "    }\n",
    "an edge wakes no fiber")
_of("fd", "src/io/fd.h",
    "memory_order_acquire); /* pairs: weft__fd_report */",
    "memory_order_relaxed);",
    "a waiter that sees an edge does not see that the peer has closed")
_of("fd", "src/io/edge.h",
    "                          memory_order_release);\n    if (__builtin_expect(record->listed",
    "                          memory_order_relaxed);\n    if (__builtin_expect(record->listed",
    "an edge does not publish that the peer has closed")
_of("fd", "src/io/edge.h",
    "    if (__builtin_expect(weft__fd_generation(record) == generation, 1)) {\n",
    "    if (__builtin_expect(weft__fd_generation(record) >= generation, 1)) {\n",
    "an old event is taken for the new descriptor's")
_of("fd", "src/io/fd.c",
    "        weft__fd_remove_locked(record, op);\n        weft__driver_count(here, -1);\n        op->result = result;\n",
    "        weft__driver_count(here, -1);\n        op->result = result;\n",
    "a wait that was completed stays linked")
_of("fd", "src/io/fd.c",
    "    complete_side_locked(record, WEFT__SIDE_IN, WEFT__CLOSED, here, done);\n",
    "",
    "a close wakes no waiter")
_of("fd", "src/io/edge.h",
    "        weft__fd_slot_clear(at);\n        weft__driver_count(here, -1);\n    }\n}\n\nstatic inline void weft__fd_edge_locked",
    "        weft__driver_count(here, -1);\n    }\n}\n\nstatic inline void weft__fd_edge_locked",
    "a fiber that was fired stays in the record")
_of("fd", "src/io/fd.c",
    "    if (weft__fd_slot_waiter(at) == waiter && at->ticket == ticket) {\n",
    "    if (ticket && waiter) {\n",
    "a fiber that was fired still takes its slot back")
_of("fd", "src/io/driver.c",
    "    uint8_t free = WEFT__OP_CANCEL_NONE;\n    weft__lock(&driver->lock);\n",
    "    weft__lock(&driver->lock);\n    uint8_t free = atomic_load_explicit(&op->cancel_state, memory_order_relaxed);\n",
    "a cancel is requested for a completed operation")
_of("fd", "src/io/driver.c",
    "        remove_request_locked(driver, op);\n        weft__unlock(&driver->lock);\n    }\n}",
    "        weft__unlock(&driver->lock);\n    }\n}",
    "a request outlives the operation")
_of("fd", "src/io/fd.c",
    "                                                  : WEFT__CLOSED;\n",
    "                                                  : -EAGAIN;\n",
    "a waiter that begins after a close retries for ever")
_of("fd", "src/io/fd.c",
    "    return record->listed || weft__fd_slot_op(&record->slot[WEFT__SIDE_IN]) ||\n           weft__fd_slot_op(&record->slot[WEFT__SIDE_OUT]);",
    "    return record->listed;",
    "a close does not wait for the operation in its slot")
_of("fd", "src/io/fd.c",
    "    return !op && first ? first : !op || op == first ? record->list[side].first : op->next;",
    "    (void)first;\n    return !op ? record->list[side].first : op->next;",
    "the operation in the slot is never cancelled")
_of("fd", "src/io/fd.h",
    "weft__fd_slot_waiter(&record->slot[side]) && record->slot[side].ticket != WEFT__FD_IN_FLIGHT;",
    "weft__fd_slot_waiter(&record->slot[side]);",
    "an operation in flight is taken for a fiber")
_of("fd", "src/io/edge.h",
    "    if (__builtin_expect(!weft__fd_slot_waiter(at), 1)) {\n        weft__fd_slot_set_op(at, op);",
    "    if (at) {\n        weft__fd_slot_set_op(at, op);",
    "an operation takes the slot of another one")
_of("fd", "src/io/fd.c",
    "    if (generation != weft__fd_generation(record)) {\n        return -EAGAIN;\n    }\n",
    "    (void)generation;\n",
    "a state checked before the close is trusted after it")
_of("fd", "src/io/fd.c",
    "    int err = weft__fd_close_number(record->number);\n"
    "    weft__latch_lock(&record->lock);\n"
    "    if (weft__fd_generation(record) == generation) {\n",
    "    atomic_store_explicit(&record->generation, ++generation, memory_order_release);\n"
    "    int err = weft__fd_close_number(record->number);\n"
    "    weft__latch_lock(&record->lock);\n"
    "    if (weft__fd_generation(record) == generation--) {\n",
    "the generation changes before the close")
_of("fd", "src/io/fd.c",
    "memory_order_release); /* pairs: weft__fd_use_unknown */",
    "memory_order_relaxed);",
    "a close is not published by the generation")
_of("fd", "src/io/fd.c",
    "    weft__latch_unlock(&record->lock);\n"
    "    int err = weft__fd_close_number(record->number);\n"
    "    weft__latch_lock(&record->lock);\n",
    "    int err = weft__fd_close_number(record->number);\n",
    "a slow close keeps the lock")
_of("fd", "src/io/fd.c",
    "    if (weft__fd_generation(record) == generation) {\n        atomic_store_explicit(&record->flags, 0,",
    "    if (record) {\n        atomic_store_explicit(&record->flags, 0,",
    "the end of a close removes the new owner of the number")
_of("fd", "src/io/fd.c",
    "    atomic_store_explicit(&record->flags, WEFT__FD_IN_CLOSE, memory_order_relaxed);\n",
    "",
    "the closing state is not visible")
_of("fd", "src/io/fd.c",
    "    lock_after_close(record);\n    bool closing",
    "    weft__latch_lock(&record->lock);\n    bool closing",
    "a second close does not wait for the first")
_of("fd", "src/io/fd.c",
    "        lock_after_close(record);\n        if (weft__fd_is(record, WEFT__FD_CLOSE_PENDING)) {\n",
    "        weft__latch_lock(&record->lock);\n        if (weft__fd_is(record, WEFT__FD_CLOSE_PENDING)) {\n",
    "a closing descriptor is registered")
