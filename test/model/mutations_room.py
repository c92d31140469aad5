"""Actors: the gate, and those who wait for room. Read by mutations.py after mutations_actor.py."""

STRUCTURES["room"] = {
    "client": "client_room.c",
    "sources": ACTOR,
    "files": ["src/actor/gate.c", "src/actor/mailbox.c", "src/actor/actor.h"],
}

_of("room", "src/actor/step.c",
    "if (__builtin_expect(weft__mailbox_is_shared(actor), 0)) {\n        return dozes_shared",
    "if (false) {\n        return dozes_shared",
    "an actor looks when it has settled, and senders have moved the message")
_of("room", "src/actor/gate.c",
    "full && !drops ? gate | WEFT__GATE_CROWDED : gate + 1",
    "full && !drops ? gate : gate + 1",
    "an actor does not know that somebody waits for room")
_of("room", "src/actor/gate.c",
    "while ((sender = first_to(lot, to.id)) && reserve(actor, sender, drops)) {",
    "while ((sender = first_to(lot, to.id)) && false) {",
    "nobody is given the room there is")
_of("room", "src/actor/gate.c",
    "(drops || has_room(gate, limit & WEFT__LIMIT_MOST))",
    "(drops || limit)",
    "there is a place for everybody who waits")
_of("room", "src/actor/gate.c",
    "    if (gate & WEFT__GATE_CROWDED) {\n        turn_away(self.id);\n    }\n",
    "",
    "an end leaves those who wait for room")
_of("room", "src/actor/mailbox.c",
    "    struct weft__letter *oldest = NULL;\n    struct weft__link *strays = NULL;\n    weft__lock(&actor->lock);\n",
    "    struct weft__letter *oldest = NULL;\n    struct weft__link *strays = NULL;\n",
    "a sender drops a message without the lock")
_of("room", "src/actor/gate.c",
    "    if (!sender) {\n        step_down(actor, to, 0, WEFT__GATE_CROWDED);",
    "    {\n        step_down(actor, to, 0, WEFT__GATE_CROWDED);",
    "nobody knows of those who wait still")
_of("room", "src/actor/gate.c",
    "    uint64_t gate = actor ? step_down(actor, to, count, bits) : 0;\n    if (gate & WEFT__GATE_CROWDED) {",
    "    uint64_t gate = actor ? step_down(actor, to, count, bits) : 0;\n    if (gate & WEFT__GATE_CROWDED && count == 0) {",
    "the end of a pass gives the room to nobody")
_of("room", "src/actor/gate.c",
    "    change_pass(to, WEFT__GATE_PASS, WEFT__GATE_FRESH);",
    "    change_pass(to, WEFT__GATE_PASS, 0);",
    "a pass that nobody uses is taken for one that will be used")
_of("room", "src/actor/gate.c",
    "    if (decided.pushed) {\n        weft__actor_wake(actor, to, false);\n    }\n",
    "",
    "an actor is not woken for a letter that was let in")
_of("room", "src/actor/gate.c",
    "    settle_all(decided.parcels, -ESRCH);\n",
    "",
    "a step that waits is not told of the end")
_of("room", "src/actor/gate.c",
    "    while (is_of(gate, to)) {\n        if (step_to(actor, &gate, (gate - count) & ~bits)) {",
    "    for (;;) {\n        if (step_to(actor, &gate, (gate - count) & ~bits)) {",
    "the end of a pass is counted at the gate of the next one")
_of("room", "src/actor/gate.c",
    "    if (linked) {\n        unlink_one(lot, sender);\n    }\n    weft__unlock(&lot->lock);",
    "    weft__unlock(&lot->lock);",
    "one that does not wait any more stays in the queue")
_of("room", "src/actor/actor.h",
    "weft__gate_count(gate) - n <= (limit",
    "weft__gate_count(gate) - n < (limit",
    "an actor keeps room for itself")
