/* Select: waits for the first of several things, and does that one.
 *
 *     int number;
 *     struct weft_case cases[] = {
 *         weft_case_recv(numbers, &number),
 *         weft_case_event(&stop),
 *         weft_case_at(weft_after(WEFT_SECONDS(1))),
 *     };
 *     switch (weft_select(cases, 3, WEFT_FOREVER)) {
 *     case 0: if (cases[0].status == 0) ... a number; else -EPIPE, closed
 *     case 1: ... told to stop
 *     case 2: ... a second has passed
 *     }
 *
 * Exactly one case is done, the others have not happened: nothing was sent, nothing received, and
 * their places are as they were. A select never meets itself: one that sends to and receives from
 * the same channel waits for others.
 */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/chan.h>
#include <weft/cond.h>
#include <weft/event.h>
#include <weft/future.h>

WEFT_BEGIN_DECLS

/* The most cases of one select. With up to 8 of them it needs no memory but the caller's stack. */
#define WEFT_SELECT_MAX 4000

enum weft_case_kind {
    WEFT_CASE_SEND,
    WEFT_CASE_RECV,
    WEFT_CASE_EVENT,
    WEFT_CASE_FUTURE,
    WEFT_CASE_COND,
    WEFT_CASE_AT,
};

struct weft_case {
    enum weft_case_kind kind;
    int status;   /* of the case that was done: 0, or -EPIPE: the channel is closed */
    void *object; /* NULL: a case that is never ready */
    void *item;   /* of a channel: only read by a send; of a condition: the mutex, or NULL */
    int64_t at;
};

/* Sends a copy of *item, as it is when it is sent. */
static inline struct weft_case weft_case_send(weft_chan *chan, const void *item)
{
    struct weft_case one = {WEFT_CASE_SEND, 0, chan, (void *)(uintptr_t)item, 0};
    return one;
}

/* Receives into *item; several cases may have the same place. */
static inline struct weft_case weft_case_recv(weft_chan *chan, void *item)
{
    struct weft_case one = {WEFT_CASE_RECV, 0, chan, item, 0};
    return one;
}

static inline struct weft_case weft_case_event(weft_event *event)
{
    struct weft_case one = {WEFT_CASE_EVENT, 0, event, NULL, 0};
    return one;
}

/* That the future is decided; what it holds is asked for afterwards. */
static inline struct weft_case weft_case_future(weft_future *future)
{
    struct weft_case one = {WEFT_CASE_FUTURE, 0, future, NULL, 0};
    return one;
}

/* A signal of the condition. The caller holds the mutex, as with weft_cond_wait, and holds it again
 * when the select returns, whatever that returns; meanwhile it is unlocked if, and only if, the
 * select has to wait. NULL: as there. */
static inline struct weft_case weft_case_cond(weft_cond *cond, weft_mutex *mutex)
{
    struct weft_case one = {WEFT_CASE_COND, 0, cond, mutex, 0};
    return one;
}

/* A point in time, as a deadline. */
static inline struct weft_case weft_case_at(int64_t time)
{
    struct weft_case one = {WEFT_CASE_AT, 0, NULL, NULL, time};
    return one;
}

/* Does one of the cases and returns its index. Of several that are ready each has its chance,
 * whatever their order. Deadline 0 is what other languages call a default case. -ETIMEDOUT,
 * -ECANCELED, -EINTR: none was done. -ENOMEM: only with more than 8 cases. */
WEFT_API int weft_select(struct weft_case *cases, size_t n, int64_t deadline);

WEFT_END_DECLS
#endif
