/* A pending send: a message of a step that waits for mailbox capacity, and the completion of its
 * send command.
 *
 * It is in the pending table under its sender, which provides the deadline and finds it if the
 * sender ends first, and in the admission queue of the receiver. The thread that removes it from
 * the admission queue settles and frees it. Lock order: bucket of the pending table, wait bucket of
 * admission.
 */
#ifndef WEFT_MAILBOX_PENDING_SEND_H
#define WEFT_MAILBOX_PENDING_SEND_H

#include "mailbox/admission.h"
#include "mailbox/pending.h"

struct weft__pending_send {
    struct weft__pending_entry entry; /* must be first; its envelope is the completion */
    struct weft__sender sender;
};

static inline struct weft__pending_send *weft__pending_send_of(struct weft__sender *sender)
{
    return (struct weft__pending_send *)(void *)((char *)sender -
                                                 offsetof(struct weft__pending_send, sender));
}

/* Send the message, whose sender is set, for a step's command, which completes when the message is
 * admitted. WEFT_BY_POLICY: wait if the receiver's policy says so. Takes the envelope. Returns 0;
 * an error if the completion could not be reported. */
int weft__pending_send_start(const struct weft_command *command, weft_pid to,
                             struct weft__envelope *envelope, int64_t deadline);
void weft__pending_send_free(struct weft__pending_send *send);
/* The message was removed from the admission queue and its envelope delivered: complete the
 * command. */
void weft__pending_send_complete(struct weft__pending_send *send, int error);

#endif
