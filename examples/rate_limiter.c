/* A rate limiter: a number of calls per second, with a burst after a pause. Its whole state is the
 * time at which the next call may run; a caller advances that time by one interval and sleeps until
 * its own turn. It needs no lock, no fiber and no timer, and callers are served in the order of
 * arrival. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

struct limiter {
    _Atomic(int64_t) next; /* earliest time of the next call */
    int64_t interval_ns, burst_ns;
};

static void limiter_init(struct limiter *limiter, int64_t per_second, int64_t burst)
{
    limiter->interval_ns = WEFT_SECONDS(1) / per_second;
    limiter->burst_ns = burst * limiter->interval_ns;
    atomic_init(&limiter->next, 0);
}

/* Waits for a turn. Returns -ETIMEDOUT, at once, if the turn would come after the deadline;
 * -ECANCELED or -EINTR if the wait was ended, and then the turn is lost. */
static int limiter_wait(struct limiter *limiter, int64_t deadline)
{
    int64_t next = atomic_load(&limiter->next), turn;
    do {
        /* Unused turns accumulate, up to the burst. */
        int64_t earliest = weft_now() - limiter->burst_ns;
        turn = next > earliest ? next : earliest;
        if (turn > deadline) {
            return -ETIMEDOUT;
        }
    } while (!atomic_compare_exchange_weak(&limiter->next, &next, turn + limiter->interval_ns));
    return turn <= weft_now() ? 0 : weft_sleep(turn);
}

/* --- usage ------------------------------------------------------------------------------ */

enum { CALLERS = 4, CALLS = 10, PER_SECOND = 2000, BURST = 5 };

static struct limiter limiter;

static int call_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++) {
        int err = limiter_wait(&limiter, WEFT_FOREVER);
        if (err) {
            return err;
        }
    }
    return 0;
}

static void *run(void *arg)
{
    weft_scope scope;
    int64_t began = weft_now();
    limiter_init(&limiter, PER_SECOND, BURST);
    weft_scope_open(&scope, NULL);
    for (int i = 0; i < CALLERS; i++) {
        weft_scope_spawn(&scope, NULL, call_often, NULL, NULL);
    }
    int err = weft_scope_close(&scope, WEFT_FOREVER);
    int64_t took = weft_now() - began;
    printf("%d calls in %.1f ms\n", CALLERS * CALLS, (double)took / 1e6);
    /* All calls except the burst and the first had to wait for their interval. */
    *(bool *)arg = took >= (CALLERS * CALLS - BURST - 1) * limiter.interval_ns;

    /* A turn that would come too late is refused at once, and is not used up. */
    bool refused = limiter_wait(&limiter, 0) == -ETIMEDOUT;
    return (void *)(intptr_t)(err || !refused);
}

int main(void)
{
    bool slow_enough = false;
    void *failure = NULL;
    int err = weft_run(&failure, run, &slow_enough, NULL, WEFT_FOREVER);
    return err == 0 && !failure && slow_enough ? 0 : 1;
}
