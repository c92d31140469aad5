"""Calls on descriptors: interrupts and edges delivered to a wait that is taken back. Read by mutations.py."""

STRUCTURES["call"] = {
    "client": "io/client_call.c",
    "sources": ["src/fdio/call.c", "src/fdio/fd_exhaustion.c", "src/io/fd.c", "src/io/driver.c", "src/base/error.c"] + WAIT,
    "files": ["src/fdio/call.h", "src/fdio/call.c", "src/fdio/fd_exhaustion.c"],
}

_of("call", "src/fdio/call.c",
    "    int ended = finish_unlinked(reason, err, kind, record->number);\n    return ended || err != -EBUSY ? ended : wait_listed",
    "    int ended = finish_unlinked(err == -EBUSY ? WEFT__REASON_NONE : reason, err, kind, record->number);\n    return ended || err != -EBUSY ? ended : wait_listed",
    "another fiber waits in the record: the interrupt of the second is lost")
_of("call", "src/fdio/call.c",
    "    int ended = finish_unlinked(reason, err, kind, record->number);\n    return ended || err != -EBUSY ? ended : wait_listed",
    "    int ended = finish_unlinked(err == -EAGAIN ? WEFT__REASON_NONE : reason, err, kind, record->number);\n    return ended || err != -EBUSY ? ended : wait_listed",
    "an edge has come: the interrupt is lost")
_of("call", "src/fdio/call.c",
    "return finish_unlinked(weft__waiter_disarm(&waiter), err, kind, record->number);",
    "(void)!weft__waiter_disarm(&waiter);\n        return err == -EAGAIN ? 0 : err;",
    "an edge has come before the fiber was listed: the interrupt is lost")
_of("call", "src/fdio/call.c",
    "    if (err != -EAGAIN && err != -EBUSY) {\n        weft__waiter_defer(reason);\n",
    "    if (err != -EAGAIN && err != -EBUSY) {\n",
    "the call fails: the interrupt is lost")
_of("call", "src/fdio/call.c",
    "    weft__waiter_defer(reason); /* it was done after all */\n",
    "",
    "the operation completed after all: the interrupt is lost")
_of("call", "src/fdio/call.c",
    "    if (call->op.result == -ECANCELED || call->op.result == WEFT__RESUBMIT) {\n        return",
    "    if (call->op.result == -ECANCELED || call->op.result == WEFT__RESUBMIT) {\n        weft__waiter_defer(reason);\n        return",
    "an interrupt that has ended the call is delivered again")
_of("call", "src/fdio/fd_exhaustion.c",
    "return weft__waiter_end_by(weft__waiter_disarm(&waiter), &exhaustion_kind, 0);",
    "return weft__waiter_disarm(&waiter) == WEFT__REASON_CANCEL ? -125 : 0;",
    "a descriptor has become free: the interrupt is lost")
_of("call", "src/wait/waiter.c",
    "    if (reason == WEFT__REASON_INTERRUPT) {\n        weft_fiber_interrupt(weft_self());\n    }\n",
    "",
    "a wake-up that is passed on is lost")
_of("call", "src/wait/waiter.c",
    "        weft__waiter_record_end(weft__current(weft__worker_self()),\n                              &(struct weft__wait_note){.kind = kind, .on = on}, reason);\n",
    "",
    "it is not recorded what the interrupt has ended")
