"""Cancel, interrupt, shields and aborts. Read by mutations.py."""

STRUCTURES["cancel"] = {
    "client": "sched/client_cancel.c",
    "sources": ["src/sync/event.c"] + WAIT,
    "files": ["src/fiber/cancel.c", "src/wait/waiter.c", "src/task/ident.h"],
}

_of("cancel", "src/fiber/cancel.c",
    "(flags & WEFT__IDENT_ABORT ? WEFT__WAIT_UNABORTABLE : WEFT__WAIT_SHIELDED)",
    "WEFT__WAIT_SHIELDED",
    "an abort stops at a shield")
_of("cancel", "src/fiber/cancel.c",
    "(flags & WEFT__IDENT_ABORT ? WEFT__WAIT_UNABORTABLE : WEFT__WAIT_SHIELDED)",
    "(flags & WEFT__IDENT_ABORT ? 0 : WEFT__WAIT_SHIELDED)",
    "an abort ends a wait that it must not")
_of("cancel", "src/wait/waiter.c",
    "((flags & WEFT__IDENT_ABORT) && !(kind & WEFT__WAIT_UNABORTABLE))",
    "(flags & WEFT__IDENT_ABORT)",
    "an abort that came first ends a wait that it must not")
_of("cancel", "src/wait/waiter.c",
    "((flags & WEFT__IDENT_ABORT) && !(kind & WEFT__WAIT_UNABORTABLE)) ||",
    "",
    "an abort that came before the wait stops at a shield")
_of("cancel", "src/wait/waiter.c",
    "((flags & WEFT__IDENT_CANCEL) && !(kind & WEFT__WAIT_SHIELDED))",
    "(flags & WEFT__IDENT_CANCEL)",
    "a cancel that came before the wait goes through a shield")
_of("cancel", "src/wait/waiter.c",
    "            ident &= ~(uint64_t)WEFT__IDENT_INTERRUPT;\n",
    "",
    "an interrupt that came before the wait is delivered twice")
_of("cancel", "src/wait/waiter.c",
    "if (ident & WEFT__IDENT_INTERRUPT) {",
    "if (true) {",
    "an interrupt that was delivered by its setter is delivered again")
_of("cancel", "src/wait/waiter.c",
    "if (fire != WEFT__FIRE_LOST) {\n            ident &=",
    "if (true) {\n            ident &=",
    "an interrupt that ended nothing is taken for delivered")
_of("cancel", "src/wait/waiter.h",
    "task->shields > 0 ? kind | WEFT__WAIT_SHIELDED : kind",
    "kind",
    "a shield is not checked")
_of("cancel", "src/fiber/cancel.c",
    "if (fire != WEFT__FIRE_LOST && reason == WEFT__REASON_INTERRUPT) {",
    "if (reason == WEFT__REASON_INTERRUPT) {",
    "an interrupt that ended nothing is lost")
_of("cancel", "src/task/ident.h",
    "if (word & WEFT__IDENT_LOCK) {\n"
    "            weft__ident_spin(spins);\n"
    "            word = atomic_load_explicit(&task->ident, memory_order_relaxed);\n"
    "        } else if (!(word & flag)) {",
    "if (!(word & flag)) {",
    "a flag is taken while its setter may still take it back")
