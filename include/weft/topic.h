/* Topics: one function per topic, and an inbox for the rest.
 *
 *     static const struct weft_topic_handler topics[] = {
 *         {"order.*", on_order},
 *         {"@events", on_event},
 *         {NULL, on_other},
 *     };
 *     static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out
 *     *out) {
 *         weft_out_idle(out);
 *         return weft_topic_dispatch(self, topics, events, n, out);
 *     }
 *
 * Topics that begin with '@' are Weft's: what is not a message has the topic "@events".
 */
#ifndef WEFT_TOPIC_H
#define WEFT_TOPIC_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* In a pattern, '*' stands for any bytes, none too, '?' for one byte, everything else for itself.
 * NULL as a topic is "". */
WEFT_API bool weft_topic_match(const char *pattern, const char *topic);

struct weft_topic_handler {
    const char *pattern; /* NULL: the inbox, which ends the table */
    /* An error ends the actor. NULL: such events are dropped; a call is answered by -ENOSYS. */
    int (*on)(weft_actor *self, const struct weft_actor_event *event, weft_out *out);
};

/* Gives every event, in their order, to the first pattern that matches its topic, or else to the
 * inbox. Stops at the first error, and answers it; else 0. */
WEFT_API int weft_topic_dispatch(weft_actor *self, const struct weft_topic_handler *topics,
                                 const struct weft_actor_event *events, size_t n, weft_out *out);

WEFT_END_DECLS
#endif
