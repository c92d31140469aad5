/* Topic dispatch: one handler function per topic pattern, and a default handler for the rest.
 *
 *     static const struct weft_topic_handler topics[] = {
 *         {"order.*", on_order},
 *         {"@events", on_event},
 *         {NULL, on_other},
 *     };
 *     static int step(weft_actor *self, const struct weft_actor_event *events, size_t n,
 *                     weft_out *out)
 *     {
 *         weft_out_idle(out);
 *         return weft_topic_dispatch(self, topics, events, n, out);
 *     }
 *
 * Topics that begin with '@' are reserved for Weft: events that are not messages have the topic
 * "@events".
 */
#ifndef WEFT_TOPIC_H
#define WEFT_TOPIC_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Match a topic against a pattern. '*' matches any number of bytes, including none; '?' matches
 * one byte; every other byte matches itself. A NULL topic counts as "".
 *
 * Returns true if the whole topic matches.
 * Context: any thread; does not wait. */
WEFT_API bool weft_topic_match(const char *pattern, const char *topic);

struct weft_topic_handler {
    const char *pattern; /* NULL: the default handler, which ends the table */
    /* An error ends the actor. NULL: such events are dropped, and calls are answered with
     * -ENOSYS. */
    int (*on)(weft_actor *self, const struct weft_actor_event *event, weft_out *out);
};

/* Pass each event, in order, to the first handler whose pattern matches its topic, or else to the
 * default handler. The table must end with the default handler.
 *
 * Returns 0, or the error of the first handler that fails, which stops the dispatch.
 * Context: in a step, or in a fiber actor; waits only if a handler does. */
WEFT_API int weft_topic_dispatch(weft_actor *self, const struct weft_topic_handler *topics,
                                 const struct weft_actor_event *events, size_t n, weft_out *out);

WEFT_END_DECLS
#endif
