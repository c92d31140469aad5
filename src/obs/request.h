/* What a sampler asks of another thread: to write something (a shot) that belongs to the sampler at
 * all other times.
 *
 * One word {tid:32, step:32}:
 *
 *   from            to       who                 function
 *   --------------  -------  ------------------  --------------------------------------------------
 *   IDLE and ends   ASKED    the sampler         ask
 *   ASKED           COPYING  the thread, by CAS  take: what is asked for is the thread's to write
 *   ASKED           IDLE     the sampler, CAS    withdraw: no answer in time
 *   COPYING         TAKEN    the thread          answer: written, the sampler's again
 *   COPYING         OTHER    the thread          answer: there was nothing to write
 *
 * A sampler that loses patience with a thread that copies goes away; no other request can be made
 * until the thread has ended its copy. take and answer are async-signal-safe. One sampler at a
 * time, by a lock of theirs.
 */
#ifndef WEFT_OBS_REQUEST_H
#define WEFT_OBS_REQUEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/futex.h"

enum weft__request_step {
    WEFT__REQUEST_IDLE,
    WEFT__REQUEST_ASKED,
    WEFT__REQUEST_COPYING,
    WEFT__REQUEST_TAKEN,
    WEFT__REQUEST_OTHER,
};

/* Zeroed: idle. */
struct weft__request {
    _Atomic(uint64_t) word;
    _Atomic(uint32_t) bell; /* rung after each answer */
};

static inline uint64_t weft__request_word(int tid, enum weft__request_step step)
{
    return (uint64_t)(uint32_t)tid << 32 | step;
}

static inline enum weft__request_step weft__request_step(struct weft__request *request)
{
    /* Acquire: what the thread has written. pairs: answer */
    return (enum weft__request_step)(uint32_t)atomic_load_explicit(&request->word,
                                                                   memory_order_acquire);
}

/* False: somebody copies still. */
static inline bool weft__request_ask(struct weft__request *request, int tid)
{
    if (weft__request_step(request) == WEFT__REQUEST_COPYING) {
        return false;
    }
    /* Release: what is asked for, and the sampler's last look at the answer before. pairs: take */
    atomic_store_explicit(&request->word, weft__request_word(tid, WEFT__REQUEST_ASKED),
                          memory_order_release);
    return true;
}

/* False: nothing is asked of this thread, or no longer. */
static inline bool weft__request_take(struct weft__request *request, int tid)
{
    uint64_t asked = weft__request_word(tid, WEFT__REQUEST_ASKED);
    return atomic_compare_exchange_strong_explicit(&request->word, &asked,
                                                   weft__request_word(tid, WEFT__REQUEST_COPYING),
                                                   memory_order_acquire, /* pairs: ask */
                                                   memory_order_relaxed);
}

static inline void weft__request_answer(struct weft__request *request, int tid,
                                        enum weft__request_step step)
{
    atomic_store_explicit(&request->word, weft__request_word(tid, step),
                          memory_order_release); /* pairs: weft__request_step */
    /* Release: who sees the bell rung sees the answer, or it could go to sleep over it. pairs:
     * await */
    atomic_fetch_add_explicit(&request->bell, 1, memory_order_release);
    weft__futex_wake(&request->bell, 1);
}

/* False: the thread has taken it. */
static inline bool weft__request_withdraw(struct weft__request *request, int tid)
{
    uint64_t asked = weft__request_word(tid, WEFT__REQUEST_ASKED);
    return atomic_compare_exchange_strong_explicit(&request->word, &asked,
                                                   weft__request_word(tid, WEFT__REQUEST_IDLE),
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Until it is answered or the deadline has passed; the step that it is in then. */
static inline enum weft__request_step weft__request_await(struct weft__request *request,
                                                          int64_t deadline)
{
    for (int late = 0;;) {
        uint32_t rung =
            atomic_load_explicit(&request->bell, memory_order_acquire); /* pairs: answer */
        enum weft__request_step step = weft__request_step(request);
        if (late || (step != WEFT__REQUEST_ASKED && step != WEFT__REQUEST_COPYING)) {
            return step;
        }
        late = weft__futex_wait(&request->bell, rung, deadline) == -ETIMEDOUT;
    }
}

#endif
