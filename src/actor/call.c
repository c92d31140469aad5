#include "actor/call.h"

#include <errno.h>

#include <weft/actor_command.h>

#include "actor/ledger.h"
#include "actor/literal.h"
#include "actor/request.h"
#include "actor/route.h"

static _Atomic(uint64_t) calls, late; /* statistics */

int weft_actor_reply(uint64_t call, int error, weft_buf *buf)
{
    if (weft__ledger_answer(call, error, buf)) {
        return 0;
    }
    atomic_fetch_add_explicit(&late, 1, memory_order_relaxed);
    return -ESRCH;
}

int weft_actor_call_transfer(uint64_t call, weft_pid to)
{
    return to.node == weft__node() ? weft__ledger_transfer(call, to) : -EREMOTE;
}

void weft_actor_call_stats(struct weft_actor_call_stats *out)
{
    *out = (struct weft_actor_call_stats){
        .calls = atomic_load_explicit(&calls, memory_order_relaxed),
        .late = atomic_load_explicit(&late, memory_order_relaxed),
    };
}

/* --- calls by a fiber or thread -------------------------------------------------------------- */

static const struct weft__wait_kind answer_kind = {.name = "answer of an actor"};

/* A call by a fiber or thread, on the caller's stack. */
struct call {
    struct weft__debt entry;
    struct weft__node node;
    struct weft__waiter waiter;
};

static int enter(weft_actor *actor, weft_pid to, const struct weft__letter *letter,
                 int64_t deadline)
{
    if (to.node != weft__node()) {
        return -EREMOTE;
    }
    if (weft__letter_is_message(letter)) {
        return weft__letter_enter(actor, to, deadline);
    }
    return weft__actor_of(to) ? 0 : -ESRCH;
}

static void put(weft_actor *actor, weft_pid to, struct weft__letter *letter, int place)
{
    uint64_t ref = letter->tag;
    if (weft__letter_is_message(letter)) {
        weft__letter_put(actor, to, letter, place);
    } else if (weft__letter_post_system(to, letter) != 0) {
        weft__ledger_answer(ref, -EOWNERDEAD, NULL); /* the actor has just ended */
    }
}

/* The call could not be added to the pending table. */
static void take_back(struct call *call, weft_pid to, struct weft__letter *letter)
{
    if (weft__waiter_disarm(&call->waiter) == WEFT__REASON_INTERRUPT) {
        weft_interrupt(weft_self()); /* the next wait gets it */
    }
    if (weft__letter_is_message(letter)) {
        weft__gate_give_back(to);
    }
}

/* Returns 0 or an error; the reply is in the node. Once the call is in the pending table the end of
 * the actor may end the wait; no other thread knows the reference before the envelope is posted.
 * Takes the envelope. */
static int ask_and_wait(struct call *call, weft_pid to, struct weft__letter *letter,
                        int64_t deadline)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    int place = enter(actor, to, letter, deadline);
    if (place < 0) {
        weft__letter_free(letter);
        return place;
    }
    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);
    int err = weft__ledger_add_wait(&call->entry, actor, &letter->tag);
    if (err) {
        take_back(call, to, letter);
        weft__letter_free(letter);
        return err;
    }
    uint64_t ref = letter->tag;
    put(actor, to, letter, place);
    enum weft__reason reason = weft__waiter_park(&call->waiter, deadline, &answer_kind, 0);
    if (weft__reason_done(reason)) {
        return call->node.status;
    }
    weft__ledger_drop(ref, 1u << WEFT__DEBT_WAIT);
    call->node.value = NULL; /* a reply that lost the race may have set it; it frees the buffer */
    return weft__reason_errno(reason);
}

int weft__call(weft_pid to, struct weft__letter *letter, weft_buf **reply, int64_t deadline)
{
    struct call call;
    weft__node_init(&call.node, &call.waiter, 0);
    weft__debt_init_wait(&call.entry, &call.node, to);
    int err = ask_and_wait(&call, to, letter, deadline > 0 ? deadline : 0);
    if (reply && !err) {
        *reply = call.node.value;
    } else {
        weft_buf_free(call.node.value);
    }
    return err;
}

int weft_actor_call(weft_pid to, const char *topic, weft_buf *request, weft_buf **reply,
                    int64_t deadline)
{
    weft__topic_check(topic);
    struct weft__letter *letter = weft__letter_new(WEFT_EVENT_CALL, 0, request);
    if (!letter) {
        weft_buf_free(request);
        return -ENOMEM;
    }
    letter->topic = topic;
    weft__letter_sign(letter);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return weft__call(to, letter, reply, deadline);
}

/* --- calls by a step -------------------------------------------------------------------------- */

struct question {
    struct weft__request request; /* first */
    weft_pid to;
    const char *topic;
    weft_buf *buf;
    int64_t deadline;
};

static void drop_question(struct weft__request *request)
{
    weft_buf_free(((struct question *)(void *)request)->buf);
}

int weft_out_call(weft_out *out, uint64_t tag, weft_pid to, const char *topic, weft_buf *request,
                  int64_t deadline)
{
    weft__topic_check(topic);
    struct question question = {.request.drop = drop_question,
                                .to = to,
                                .topic = topic,
                                .buf = request,
                                .deadline = deadline};
    return weft__request_ask(out, WEFT_COMMAND_CALL, tag, &question.request, sizeof question);
}

/* Send the request, with the reference as its tag. */
static int ask(const struct question *question, uint64_t ref, weft_buf *request)
{
    struct weft__letter *letter = weft__letter_new(WEFT_EVENT_CALL, ref, request);
    if (!letter) {
        weft_buf_free(request);
        return -ENOMEM;
    }
    letter->topic = question->topic;
    weft__letter_sign(letter);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    int err = weft__letter_send(question->to, letter, WEFT__AT_ONCE);
    if (err) {
        weft__letter_free(letter);
    }
    return err;
}

int weft__call_handle(const struct weft_command *command, void *arg)
{
    struct question *question = weft__request_of(command);
    (void)arg;
    if (question->to.node != weft__node()) {
        weft_buf_free(command->arg);
        return -EREMOTE;
    }
    struct weft__debt *entry = weft__debt_new_call(command->actor, question->to, command->tag);
    uint64_t ref;
    int err = entry ? weft__ledger_add(entry, question->deadline, 0, &ref) : -ENOMEM;
    if (err) {
        if (entry) {
            weft__debt_free(entry);
        }
    } else {
        weft_buf *request = question->buf;
        question->buf = NULL;
        err = ask(question, ref, request);
        /* If the entry is gone the call has completed already: by its deadline, or by the callee's
         * end. */
        if (err && !weft__ledger_drop(ref, 1u << WEFT__DEBT_CALL)) {
            err = 0;
        }
    }
    weft_buf_free(command->arg);
    return err;
}
