#include "actor/parcel.h"

#include <errno.h>

#include "actor/mailbox.h"
#include "actor/route.h"
#include "actor/trace.h"
#include "base/alloc.h"

/* The completion, from whom it was sent to; NULL: no memory. */
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

/* There is no place. Takes the letters if there is no error: as weft__gate_queue. */
static int wait_for_room(const struct weft_command *command, weft_pid to,
                         struct weft__letter *letter, struct weft__letter *news, int64_t deadline)
{
    struct weft__parcel *parcel = weft__alloc(sizeof *parcel);
    if (!parcel) {
        return -ENOMEM;
    }
    parcel->entry =
        (struct weft__debt){.kind = WEFT__DEBT_SEND, .to = command->actor, .letter = news};
    parcel->sender = (struct weft__sender){.to = to, .letter = letter};
    weft__worker_self()->pass_left = 0; /* what it sends from now on comes after this */
    int place = weft__ledger_queue(parcel, deadline == WEFT__AT_ONCE ? WEFT_FOREVER : deadline);
    if (place != WEFT__GATE_WAITS) {
        weft__free(parcel);
    }
    return place;
}

/* 0: it has a place, or waits. */
static int submit(const struct weft_command *command, weft_pid to, struct weft__letter *letter,
                  struct weft__letter *news, int64_t deadline)
{
    int place = weft__letter_enter(to, WEFT__AT_ONCE);
    if (place == -ENOBUFS && waits(to, deadline)) {
        weft__trace_sent(to, letter);
        place = wait_for_room(command, to, letter, news, deadline);
    }
    if (place >= 0 && place != WEFT__GATE_WAITS) {
        weft__letter_put(to, letter, place);
        weft__letter_post_system(command->actor, news);
    }
    return place < 0 ? place : 0;
}

int weft__parcel_send(const struct weft_command *command, weft_pid to, struct weft__letter *letter,
                      int64_t deadline)
{
    struct weft__letter *news = news_of(command, to);
    int err = news ? 0 : -ENOMEM;
    if (!err && to.node != weft__node()) {
        err = weft__route_letter(to, letter);
        if (!err) {
            weft__letter_post_system(command->actor, news);
        } else {
            weft__letter_free(news);
        }
        return err;
    }
    err = err ? err : submit(command, to, letter, news, deadline);
    if (err) {
        weft__letter_address(letter, to);
        if (err == -ESRCH) {
            weft__letter_bury(letter, (uint32_t)to.id);
        } else {
            weft__letter_free(letter);
        }
        if (news) {
            weft__letter_free(news);
        }
    }
    return err;
}

void weft__parcel_settle(struct weft__parcel *parcel, int error)
{
    weft_pid to = parcel->entry.to;
    bool pass = parcel->sender.pass && !error;
    struct weft__letter *news = weft__ledger_deliver(parcel);
    news->error = error;
    news->pass = pass;
    weft__letter_post_system(to, news); /* if it has ended, its pass ends, too */
}
