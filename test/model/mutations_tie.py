"""Relations of actors: links, monitors, ends. Read by mutations.py."""

STRUCTURES["tie"] = {
    "client": "client_tie.c",
    "sources": ["src/actor/tie.c", "src/actor/relation.c", "src/actor/end.c", "src/actor/exits.c", "src/actor/letter.c", "src/actor/gate.c", "src/base/small.c"] + WAIT,
    "files": ["src/actor/tie.c", "src/actor/relation.c", "src/actor/end.c"],
}

_of("tie", "src/actor/tie.c",
    "bool first = (uint32_t)a.id < (uint32_t)b.id;",
    "bool first = true;",
    "two actors are locked in any order")
_of("tie", "src/actor/tie.c",
    "    if (above) {\n        weft__lock(&other->lock);\n        return true;\n    }\n    if (weft__lock_try(&other->lock)) {",
    "    {\n        weft__lock(&other->lock);\n        return true;\n    }\n    if (weft__lock_try(&other->lock)) {",
    "an end locks the other second, whichever it is")
_of("tie", "src/actor/tie.c",
    "if (actor->ties == tie && weft__tie_is_bond(tie) && record_of(weft__tie_other(tie)) == other) {",
    "if (other) {",
    "an end believes in a tie after it let its lock go")
_of("tie", "src/actor/tie.c",
    "        weft__actor_push(other, pid, letter);\n    }\n    weft__unlock(&other->lock);\n    weft__unlock(&actor->lock);\n    if (letter) {",
    "    }\n    weft__unlock(&other->lock);\n    weft__unlock(&actor->lock);\n    if (letter) {\n        weft__actor_push(other, pid, letter);",
    "an end tells after the other could look for it")
_of("tie", "src/actor/tie.c",
    "    weft__pair_lock(me, other);\n    struct weft__tie *tie = find_link(me, other);\n",
    "    struct weft__tie *tie = find_link(me, other);\n    weft__pair_lock(me, other);\n",
    "a kill looks for the link before it has the locks")
_of("tie", "src/actor/tie.c",
    "        letter->kind = WEFT__LETTER_KILL;\n        weft__bond_untie(bond);\n",
    "        letter->kind = WEFT__LETTER_KILL;\n",
    "a kill leaves the link in the lists")
_of("tie", "src/actor/relation.c",
    "    weft__pair_lock(me, other);\n    bool there = weft__actor_of(other) != NULL;\n    bool tied",
    "    bool there = weft__actor_of(other) != NULL;\n    weft__pair_lock(me, other);\n    bool tied",
    "a link looks for the other before it has its lock")
_of("tie", "src/actor/relation.c",
    "        take_back(self, is_exit_of, other.id);\n",
    "",
    "an unlink leaves what is on its way")
_of("tie", "src/actor/relation.c",
    "    if (!there) {\n        tell_at_once(self, bond);\n    }\n",
    "    if (!there) {\n        weft__bond_free(bond);\n    }\n",
    "of one that ended just now nothing is told")
_of("tie", "src/actor/end.c",
    "    shut_gate(actor);\n    weft__actor_state_free(actor, actor->kind); /* nobody looks at it any more */\n    atomic_fetch_sub_explicit(&host->live, 1, memory_order_relaxed); /* who is told may spawn */\n    do {\n        weft__ties_cut(actor, end);\n    } while (!weft__actor_leave(actor, end));",
    "    weft__ties_cut(actor, end);\n    shut_gate(actor);\n    weft__actor_leave(actor, end);",
    "an end can be linked after its ties are gone")
_of("tie", "src/actor/end.c",
    "    if (actor->ties) {\n        weft__unlock(&actor->lock);\n        return false;\n    }\n",
    "",
    "who joins one that ends is not told")
_of("tie", "src/actor/end.c",
    "return actor->there == WEFT__ENDING && actor->self == pid.id;",
    "return false && actor->self == pid.id;",
    "one whose gate is shut counts as ended")
_of("tie", "src/base/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a tie is seen without what was written of it")
_of("tie", "src/actor/end.c",
    "    if (end) {\n        keep_end(actor, end);\n    }\n    actor->there = false;\n    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);\n    weft__unlock(&actor->lock);",
    "    actor->there = false;\n    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);\n    weft__unlock(&actor->lock);\n    if (end) {\n        keep_end(actor, end);\n    }",
    "an actor is gone before its end is kept")
