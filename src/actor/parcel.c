#include "actor/parcel.h"

#include <errno.h>
#include <string.h>

#include "actor/mailbox.h"
#include "actor/route.h"
#include "actor/trace.h"

/* Create the completion, with the receiver as `from`. Returns NULL if there is no memory. */
static struct weft__letter *news_of(const struct weft_command *command, weft_pid to)
{
    struct weft__letter *news = weft__letter_new(WEFT_EVENT_COMPLETE, command->tag, NULL);
    if (news) {
        weft__letter_chain(news);
        news->from_node = to.node;
        news->from_host = to.host;
        news->from_id = to.id;
    }
    return news;
}

static bool waits(weft_pid to, int64_t deadline)
{
    const weft_actor *actor = weft__actor_find((uint32_t)to.id);
    uint32_t limit = actor ? atomic_load_explicit(&actor->limit, memory_order_relaxed) : 0;
    return deadline != WEFT__AT_ONCE || limit >> WEFT__LIMIT_SHIFT == WEFT_MAILBOX_WAIT;
}

/* The timer is initialised only if there is a deadline. */
static struct weft__parcel *make(const struct weft_command *command, weft_pid to,
                                 struct weft__letter *letter, struct weft__letter *news)
{
    struct weft__parcel *parcel =
        weft__small_get(weft__small_here(), weft__small_class(sizeof *parcel), sizeof *parcel);
    if (parcel) {
        memset(&parcel->entry, 0, offsetof(struct weft__debt, timer));
        parcel->entry.kind = WEFT__DEBT_SEND;
        parcel->entry.to = command->actor;
        parcel->entry.letter = news;
        parcel->sender = (struct weft__sender){.to = to, .letter = letter};
    }
    return parcel;
}

void weft__parcel_free(struct weft__parcel *parcel)
{
    weft__small_put(weft__small_here(), weft__small_class(sizeof *parcel), parcel);
}

/* The mailbox is full. Takes both envelopes unless it fails. Returns as weft__gate_queue. */
static int wait_for_room(const struct weft_command *command, weft_pid to,
                         struct weft__letter *letter, struct weft__letter *news, int64_t deadline)
{
    struct weft__parcel *parcel = make(command, to, letter, news);
    if (!parcel) {
        return -ENOMEM;
    }
    weft__worker_self()->pass_left = 0; /* later messages must arrive later */
    int place = weft__ledger_queue(parcel, deadline == WEFT__AT_ONCE ? WEFT_FOREVER : deadline);
    if (place != WEFT__GATE_WAITS) {
        weft__parcel_free(parcel);
    }
    return place;
}

static void put_traced(weft_actor *actor, weft_pid to, struct weft__letter *letter, int place)
{
    weft__actor_deliver(actor, to, letter);
    if (place > 0) {
        weft__mailbox_shed(actor, to);
    }
}

/* Returns 0 if the message was admitted or waits. */
static int submit(const struct weft_command *command, weft_pid to, struct weft__letter *letter,
                  struct weft__letter *news, int64_t deadline)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    int place = weft__letter_enter(actor, to, WEFT__AT_ONCE);
    bool full = place == -ENOBUFS && waits(to, deadline);
    if (full) {
        weft__trace_sent(to, letter); /* before any thread can take it */
        place = wait_for_room(command, to, letter, news, deadline);
    }
    if (place < 0 || place == WEFT__GATE_WAITS) {
        return place < 0 ? place : 0;
    }
    if (full) {
        put_traced(actor, to, letter, place);
    } else {
        weft__letter_put(actor, to, letter, place);
    }
    weft__letter_post_system(command->actor, news);
    return 0;
}

/* As submit, but takes the envelope also on an error. */
static int send_here(const struct weft_command *command, weft_pid to, struct weft__letter *letter,
                     struct weft__letter *news, int64_t deadline)
{
    int err = submit(command, to, letter, news, deadline);
    if (err == -ESRCH) {
        weft__letter_address(letter, to);
        weft__letter_bury(letter, (uint32_t)to.id);
    } else if (err) {
        weft__letter_free(letter);
    }
    return err;
}

int weft__parcel_send(const struct weft_command *command, weft_pid to, struct weft__letter *letter,
                      int64_t deadline)
{
    struct weft__letter *news = news_of(command, to);
    if (!news) {
        weft__letter_free(letter);
        return -ENOMEM;
    }
    bool remote = to.node != weft__node();
    int err =
        remote ? weft__route_letter(to, letter) : send_here(command, to, letter, news, deadline);
    if (err || remote) { /* needs no memory: the event has happened */
        news->error = err;
        weft__letter_post_system(command->actor, news);
    }
    return 0;
}

void weft__parcel_settle(struct weft__parcel *parcel, int error)
{
    weft_pid to = parcel->entry.to;
    bool pass = parcel->sender.pass && !error;
    struct weft__letter *news = weft__ledger_deliver(parcel);
    news->error = error;
    news->pass = pass;
    weft__letter_post_system(to, news); /* if the sender has ended, its credit ends, too */
}
