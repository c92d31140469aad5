/* What is around the actors of a client: no fibers among them, no states, hooks, traces or ledger,
 * and no other node. What is buried is counted. A client includes this, once, and says with
 * weft__actor_find which actors there are. WITH_LEDGER,
 * WITH_EXITS: the real one is linked. */
#ifndef WEFT_TEST_MODEL_ACTORS_H
#define WEFT_TEST_MODEL_ACTORS_H

#include <errno.h>

#include "actor/fiber.h"
#include "actor/ledger.h"
#include "actor/mailbox.h"
#include "actor/parcel.h"
#include "actor/route.h"
#include "actor/tie.h"
#include "actor/trace.h"
#include "model/fibers.h"

enum { BURIED = 1, FIRST_COUNTER }; /* a client's own come after */

_Atomic(uint32_t) weft__this_node;
_Atomic(bool) weft__actor_tracing;

weft_actor *weft__actor_of(weft_pid who)
{
    weft_actor *actor = weft__actor_find((uint32_t)who.id);
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    return weft__gate_generation(gate) == weft__pid_generation(who) ? actor : NULL;
}

void weft__letter_bury(struct weft__letter *letter, uint32_t slot)
{
    (void)slot;
    x_count(BURIED);
    weft__letter_free(letter);
}

void weft__letters_bury(struct weft__link *letters, uint32_t slot)
{
    while (letters) {
        struct weft__link *next = letters->next;
        weft__letter_bury((struct weft__letter *)(void *)letters, slot);
        letters = next;
    }
}

void weft__actor_state_free(weft_actor *actor, const struct weft_actor_kind *kind)
{
    (void)actor, (void)kind;
}
weft_actor *weft__actor_of_fiber(const struct weft__task *task)
{
    (void)task;
    return NULL;
}
void weft__actor_break(weft_pid who, bool always)
{
    (void)who, (void)always;
}
int weft__route_letter(weft_pid to, struct weft__letter *letter)
{
    (void)to, (void)letter;
    x_fail("a letter went to another node");
    return 0;
}
uint32_t weft__trace_new(void)
{
    return 0;
}
void weft__trace_tell(enum weft_passage_kind kind, weft_pid to, const struct weft__letter *letter)
{
    (void)kind, (void)to, (void)letter;
}
#ifndef WITH_EXITS
void weft__exits_keep(struct weft__exits *exits, weft_pid who, int error, weft_buf *result)
{
    (void)exits, (void)who, (void)error;
    X_ASSERT(!result);
}
int weft__exits_take(struct weft__exits *exits, weft_pid who, weft_buf **result)
{
    (void)exits, (void)who;
    *result = NULL;
    return -ESRCH;
}
weft_host *weft__host_at(uint32_t number)
{
    (void)number;
    return NULL;
}
#endif
void weft__hooks_end(weft_actor *actor, size_t agreed, int reason)
{
    (void)actor, (void)agreed, (void)reason;
}
#ifndef WITH_LEDGER
void weft__ledger_end(weft_pid self)
{
    (void)self;
    x_fail("an actor of nothing to come has something to come");
}
#endif
void weft_buf_free(weft_buf *buf)
{
    X_ASSERT(!buf);
}
weft_buf *weft_buf_copy(const void *bytes, size_t len)
{
    (void)bytes, (void)len;
    return NULL;
}

#endif
