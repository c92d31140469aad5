/* Select: wait for the first of several operations that can proceed, and perform it.
 *
 *     int number;
 *     struct weft_case cases[] = {
 *         weft_case_recv(numbers, &number),
 *         weft_case_event(&stop),
 *         weft_case_at(weft_after(WEFT_SECONDS(1))),
 *     };
 *     switch (weft_select(cases, 3, WEFT_FOREVER)) {
 *     case 0: if (cases[0].status == 0) ... a number; else -EPIPE, closed
 *     case 1: ... stop was requested
 *     case 2: ... a second has passed
 *     }
 *
 * Exactly one case is performed; the others have no effect: nothing was sent or received, and their
 * buffers are unchanged. A select never matches itself: a select that both sends to and receives
 * from one channel waits for another sender or receiver.
 */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/chan.h>
#include <weft/cond.h>
#include <weft/event.h>
#include <weft/future.h>

WEFT_BEGIN_DECLS

/* The most cases in one select. Up to 8 cases need no memory besides the caller's stack. */
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
    int status;   /* of the performed case: 0, or -EPIPE if the channel is closed */
    void *object; /* NULL: a case that is never ready */
    void *item;   /* channel: the item, only read by a send; condition: the mutex, or NULL */
    int64_t at;
};

/* Case: send a copy of *item, read at the moment of sending. */
static inline struct weft_case weft_case_send(weft_chan *chan, const void *item)
{
    struct weft_case one = {WEFT_CASE_SEND, 0, chan, (void *)(uintptr_t)item, 0};
    return one;
}

/* Case: receive into *item; several cases may share one buffer. */
static inline struct weft_case weft_case_recv(weft_chan *chan, void *item)
{
    struct weft_case one = {WEFT_CASE_RECV, 0, chan, item, 0};
    return one;
}

/* Case: the event is set. */
static inline struct weft_case weft_case_event(weft_event *event)
{
    struct weft_case one = {WEFT_CASE_EVENT, 0, event, NULL, 0};
    return one;
}

/* Case: the future is decided; read its result afterwards. */
static inline struct weft_case weft_case_future(weft_future *future)
{
    struct weft_case one = {WEFT_CASE_FUTURE, 0, future, NULL, 0};
    return one;
}

/* Case: the condition is signalled. The caller holds the mutex, as for weft_cond_wait, and holds it
 * again when the select returns, whatever the result; the mutex is unlocked meanwhile only if the
 * select has to wait. mutex may be NULL as in weft_cond_wait. */
static inline struct weft_case weft_case_cond(weft_cond *cond, weft_mutex *mutex)
{
    struct weft_case one = {WEFT_CASE_COND, 0, cond, mutex, 0};
    return one;
}

/* Case: this absolute time has been reached. */
static inline struct weft_case weft_case_at(int64_t time)
{
    struct weft_case one = {WEFT_CASE_AT, 0, NULL, NULL, time};
    return one;
}

/* Wait until one of n cases can proceed, perform it, and report which.
 *
 * cases: borrowed for the call; the performed case's status is set. If several cases are ready, one
 * is chosen at random. Deadline 0 only tries, like a `default` case in Go. More than
 * WEFT_SELECT_MAX cases stop the program.
 * Returns the index of the performed case; -ETIMEDOUT, -ECANCELED or -EINTR if no case was
 * performed; -ENOMEM, only with more than 8 cases.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_select(struct weft_case *cases, size_t n, int64_t deadline);

WEFT_END_DECLS
#endif
