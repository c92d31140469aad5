/* A parcel: a message of a step that waits for room, and the completion of the send that it belongs
 * to.
 *
 * It is in the ledger of its sender, which has its deadline and finds it if the sender ends first,
 * and in the queue of the gate. Who takes it out of the queue settles and frees it. Order of locks:
 * bucket of the ledger, lot of the gate.
 */
#ifndef WEFT_ACTOR_PARCEL_H
#define WEFT_ACTOR_PARCEL_H

#include "actor/gate.h"
#include "actor/ledger.h"

struct weft__parcel {
    struct weft__debt entry; /* first; its letter is the completion */
    struct weft__sender sender;
};

static inline struct weft__parcel *weft__parcel_of(struct weft__sender *sender)
{
    return (struct weft__parcel *)(void *)((char *)sender - offsetof(struct weft__parcel, sender));
}

/* Sends the message, which is signed, for this command of a step, which completes when it has a
 * place. WEFT__AT_ONCE: it waits if the actor says so. Takes the letter. An error: it was not told
 * by what it completes. */
int weft__parcel_send(const struct weft_command *command, weft_pid to, struct weft__letter *letter,
                      int64_t deadline);
void weft__parcel_free(struct weft__parcel *parcel);
/* It was taken out of the queue, and its letter has gone: completes it. */
void weft__parcel_settle(struct weft__parcel *parcel, int error);

#endif
