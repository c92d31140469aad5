"""Relations of actors: links, monitors, ends. Read by mutations.py."""

STRUCTURES["relation"] = {
    "client": "actor/client_relation.c",
    "sources": ["src/relation/relation.c", "src/relation/link_monitor.c", "src/host/actor_exit.c", "src/actor/exit_records.c", "src/mailbox/envelope.c", "src/mailbox/admission.c", "src/worker/small_alloc.c"] + WAIT,
    "files": ["src/relation/relation.c", "src/relation/link_monitor.c", "src/host/actor_exit.c"],
}

_of("relation", "src/relation/relation.c",
    "bool first = (uint32_t)a.id < (uint32_t)b.id;",
    "bool first = true;",
    "two actors are locked in any order")
_of("relation", "src/relation/relation.c",
    "    if (above) {\n        weft__lock(&other->lock);\n        return true;\n    }\n    if (weft__lock_try(&other->lock)) {",
    "    {\n        weft__lock(&other->lock);\n        return true;\n    }\n    if (weft__lock_try(&other->lock)) {",
    "an end locks the other actor second, whichever it is")
_of("relation", "src/relation/relation.c",
    "if (actor->relations == relation && weft__relation_is_pair(relation) && record_of(weft__relation_other_pid(relation)) == other) {",
    "if (other) {",
    "an end trusts a relation after it released its lock")
_of("relation", "src/relation/relation.c",
    "        weft__actor_push(other, pid, envelope);\n    }\n    weft__unlock(&other->lock);\n    weft__unlock(&actor->lock);\n    if (envelope) {",
    "    }\n    weft__unlock(&other->lock);\n    weft__unlock(&actor->lock);\n    if (envelope) {\n        weft__actor_push(other, pid, envelope);",
    "an end notifies after the other actor could look for it")
_of("relation", "src/relation/relation.c",
    "    weft__actor_pair_lock(me, other);\n    struct weft__relation *relation = find_link(me, other);\n",
    "    struct weft__relation *relation = find_link(me, other);\n    weft__actor_pair_lock(me, other);\n",
    "a kill searches the link before it has the locks")
_of("relation", "src/relation/relation.c",
    "        envelope->kind = WEFT__ENVELOPE_KILL;\n        weft__pair_relation_remove(pair);\n",
    "        envelope->kind = WEFT__ENVELOPE_KILL;\n",
    "a kill leaves the link in the lists")
_of("relation", "src/relation/link_monitor.c",
    "    weft__actor_pair_lock(me, other);\n    bool there = weft__actor_of(other) != NULL;\n    bool added",
    "    bool there = weft__actor_of(other) != NULL;\n    weft__actor_pair_lock(me, other);\n    bool added",
    "a link searches the other actor before it has its lock")
_of("relation", "src/relation/link_monitor.c",
    "        withdraw_events(self, is_exit_of, other.id);\n",
    "",
    "an unlink leaves the exit signal that is in flight")
_of("relation", "src/relation/link_monitor.c",
    "    if (!there) {\n        notify_already_ended(self, pair);\n    }\n",
    "    if (!there) {\n        weft__pair_relation_free(pair);\n    }\n",
    "the exit of an actor that ended just now is not delivered")
_of("relation", "src/host/actor_exit.c",
    "    close_admission(actor);\n    weft__actor_state_free(actor, actor->kind); /* no thread reads it any more */\n    atomic_fetch_sub_explicit(&host->live, 1, memory_order_relaxed); /* a notified actor may spawn */\n    do {\n        weft__relations_remove_all(actor, end);\n    } while (!weft__actor_leave(actor, end));",
    "    weft__relations_remove_all(actor, end);\n    close_admission(actor);\n    weft__actor_leave(actor, end);",
    "an ending actor can be linked after its relations are gone")
_of("relation", "src/host/actor_exit.c",
    "    if (actor->relations) {\n        weft__unlock(&actor->lock);\n        return false;\n    }\n",
    "",
    "a thread that joins an ending actor is not notified")
_of("relation", "src/host/actor_exit.c",
    "return actor->live_state == WEFT__ENDING && actor->self == pid.id;",
    "return false && actor->self == pid.id;",
    "an actor whose admission is closed counts as ended")
_of("relation", "src/lock/lock.h",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_release)",
    "atomic_exchange_explicit(&lock->word, 0, memory_order_relaxed)",
    "a relation is seen before its fields were written")
_of("relation", "src/host/actor_exit.c",
    "    if (end) {\n        record_exit(actor, end);\n    }\n    actor->live_state = false;\n    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);\n    weft__unlock(&actor->lock);",
    "    actor->live_state = false;\n    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);\n    weft__unlock(&actor->lock);\n    if (end) {\n        record_exit(actor, end);\n    }",
    "an actor is gone before its exit is recorded")
