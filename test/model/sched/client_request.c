/* Clients of backtrace/sample_request.h: a sampler, and threads that it samples. A deadline may
 * pass at any moment. */
#include "backtrace/sample_request.h"
#include "model/explore.h"

static struct weft__request request;
static _Atomic(int) asked_for; /* written by the sampler before it requests */
static int shot;               /* plain: the thread's while it copies, otherwise the sampler's */

static void setup(void)
{
    atomic_init(&request.word, 0);
    atomic_init(&request.doorbell, 0);
    atomic_init(&asked_for, 0);
    shot = 0;
    x_name(&request, sizeof request, "request");
    x_name(&shot, sizeof shot, "shot");
}

static bool answer(int tid)
{
    if (!weft__request_accept(&request, tid)) {
        return false;
    }
    int seen = atomic_load_explicit(&asked_for, memory_order_relaxed);
    X_ASSERT(seen >= tid); /* the request, or what will be refused */
    shot = tid;
    weft__request_complete(&request, tid, WEFT__REQUEST_COPIED);
    return true;
}

/* What weft__sample does. False: no more requests are possible. */
static bool sample(int tid, int64_t deadline)
{
    atomic_store_explicit(&asked_for, tid,
                          memory_order_relaxed); /* a thread that copies may read it */
    if (!weft__request_post(&request, tid)) {
        return false;
    }
    enum weft__request_step step = weft__request_await(&request, deadline);
    if (step == WEFT__REQUEST_POSTED && weft__request_withdraw(&request, tid)) {
        return true;
    }
    step = weft__request_await(&request, deadline);
    if (step == WEFT__REQUEST_COPIED) {
        X_ASSERT(shot == tid);
        shot = 0;
    }
    return true;
}

/* A thread that replies eventually, and a sampler without a deadline: the reply's wake-up is not
 * lost. */
static void patient(int i)
{
    if (i == 0) {
        sample(1, INT64_MAX);
        X_ASSERT(weft__request_step(&request) == WEFT__REQUEST_COPIED);
    } else {
        while (!answer(i)) {
            x_spin();
        }
    }
}

/* The same thread twice: the reply to the first request may come during the second. */
static void twice(int i)
{
    if (i == 0) {
        for (int n = 0; n < 2 && sample(1, 1); n++) {
        }
    } else {
        answer(i);
        answer(i);
    }
}

/* Two threads that are sampled in turn. */
static void in_turn(int i)
{
    if (i == 0) {
        for (int n = 1; n <= 2 && sample(n, 1); n++) {
        }
    } else {
        answer(i);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("patient", 2, setup, patient, NULL),
    X_CLIENT("twice", 2, setup, twice, NULL),
    X_CLIENT("in_turn", 3, setup, in_turn, NULL, .preemptions = 3, .stale = 1),
};

X_MAIN(clients)
