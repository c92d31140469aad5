/* The request of a sampler to another thread: write a stack sample into memory that belongs to the
 * sampler at all other times.
 *
 * One word {tid:32, step:32}:
 *
 *   from            to         by                  function
 *   --------------  ---------  ------------------  ------------------------------------------------
 *   IDLE and ends   POSTED     the sampler         post
 *   POSTED          COPYING    the thread, by CAS  accept: the thread may write the sample now
 *   POSTED          IDLE       the sampler, CAS    withdraw: no answer in time
 *   COPYING         COPIED     the thread          complete: written, belongs to the sampler again
 *   COPYING         NO_SAMPLE  the thread          complete: there was nothing to write
 *
 * A sampler whose timeout passes while the thread copies gives up; no other request can be made
 * until the thread has finished its copy. accept and complete are async-signal-safe. There is one
 * sampler at a time; the samplers' lock sees to that.
 */
#ifndef WEFT_BACKTRACE_SAMPLE_REQUEST_H
#define WEFT_BACKTRACE_SAMPLE_REQUEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "lock/futex.h"

enum weft__request_step {
    WEFT__REQUEST_IDLE,
    WEFT__REQUEST_POSTED,
    WEFT__REQUEST_COPYING,
    WEFT__REQUEST_COPIED,
    WEFT__REQUEST_NO_SAMPLE,
};

/* Zeroed: idle. */
struct weft__request {
    _Atomic(uint64_t) word;
    _Atomic(uint32_t) doorbell; /* rung after each completion */
};

static inline uint64_t weft__request_word(int tid, enum weft__request_step step)
{
    return (uint64_t)(uint32_t)tid << 32 | step;
}

static inline enum weft__request_step weft__request_step(struct weft__request *request)
{
    /* Acquire: what the thread has written. pairs: complete */
    return (enum weft__request_step)(uint32_t)atomic_load_explicit(&request->word,
                                                                   memory_order_acquire);
}

/* False: a thread is still copying. */
static inline bool weft__request_post(struct weft__request *request, int tid)
{
    if (weft__request_step(request) == WEFT__REQUEST_COPYING) {
        return false;
    }
    /* Release: the request, and the sampler's last read of the previous sample. pairs: accept */
    atomic_store_explicit(&request->word, weft__request_word(tid, WEFT__REQUEST_POSTED),
                          memory_order_release);
    return true;
}

/* False: there is no request to this thread, or it was withdrawn. */
static inline bool weft__request_accept(struct weft__request *request, int tid)
{
    uint64_t asked = weft__request_word(tid, WEFT__REQUEST_POSTED);
    return atomic_compare_exchange_strong_explicit(&request->word, &asked,
                                                   weft__request_word(tid, WEFT__REQUEST_COPYING),
                                                   memory_order_acquire, /* pairs: post */
                                                   memory_order_relaxed);
}

static inline void weft__request_complete(struct weft__request *request, int tid,
                                          enum weft__request_step step)
{
    atomic_store_explicit(&request->word, weft__request_word(tid, step),
                          memory_order_release); /* pairs: weft__request_step */
    /* Release: a sampler that sees the new futex count sees the completion; otherwise it could
     * sleep although the request is complete. pairs: await */
    atomic_fetch_add_explicit(&request->doorbell, 1, memory_order_release);
    weft__futex_wake(&request->doorbell, 1);
}

/* False: the thread has accepted the request. */
static inline bool weft__request_withdraw(struct weft__request *request, int tid)
{
    uint64_t asked = weft__request_word(tid, WEFT__REQUEST_POSTED);
    return atomic_compare_exchange_strong_explicit(&request->word, &asked,
                                                   weft__request_word(tid, WEFT__REQUEST_IDLE),
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Wait until the request is complete or the deadline has passed; return the step it is in then. */
static inline enum weft__request_step weft__request_await(struct weft__request *request,
                                                          int64_t deadline)
{
    for (int late = 0;;) {
        uint32_t rung =
            atomic_load_explicit(&request->doorbell, memory_order_acquire); /* pairs: complete */
        enum weft__request_step step = weft__request_step(request);
        if (late || (step != WEFT__REQUEST_POSTED && step != WEFT__REQUEST_COPYING)) {
            return step;
        }
        late = weft__futex_wait(&request->doorbell, rung, deadline) == -ETIMEDOUT;
    }
}

#endif
