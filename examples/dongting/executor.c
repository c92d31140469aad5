/* Dongting: group.getExecutor(): submit, schedule, scheduleAtFixedRate, scheduleWithFixedDelay,
 * cancel. The tasks run in the group, in a fiber with a stack; a periodic task continues after a
 * failure. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

static long total; /* belongs to the group */
static weft_event thrice = WEFT_EVENT_INIT;

static int add(void *arg, void **value)
{
    total += (intptr_t)arg;
    *value = (void *)total;
    return total < 100 ? 0 : -ERANGE;
}

/* The second run fails. */
static int tick(void *arg, void **value)
{
    int *runs = arg;
    (void)value;
    if (++*runs == 3) {
        weft_event_set(&thrice);
    }
    return *runs == 2 ? -EIO : 0;
}

static int never(void *arg, void **value)
{
    (void)value;
    *(bool *)arg = true;
    return 0;
}

/* Completed with a value or an error. */
static int result_of(weft_future *future, intptr_t *value)
{
    void *got = NULL;
    weft_future_wait(future, WEFT_FOREVER);
    int err = weft_future_result(future, &got);
    *value = (intptr_t)got;
    return err;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    weft_future *sum, *too_much;
    weft_schedule *soon, *often, *cancelled;
    struct weft_schedule_stats stats;
    int runs = 0;
    bool ran = false;
    intptr_t value, late_value;
    if (weft_dispatcher_create(&dispatcher, NULL) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_call(group, &sum, add, (void *)42) || /* submit(callable).get() */
        weft_group_schedule(group, &soon, add, (void *)8,
                            &(struct weft_schedule_opts){.at = weft_after(WEFT_MS(1))}) ||
        weft_group_schedule(
            group, &often, tick, &runs,
            &(struct weft_schedule_opts){.kind = WEFT_FIXED_RATE, .period_ns = WEFT_MS(1)}) ||
        weft_group_schedule(group, &cancelled, never, &ran,
                            &(struct weft_schedule_opts){.at = weft_after(WEFT_MINUTES(60))})) {
        return 1;
    }
    bool ok = result_of(sum, &value) == 0 && value == 42;
    ok &= result_of(weft_schedule_finished(soon), &late_value) == 0 && late_value == 50;
    ok &= weft_group_call(group, &too_much, add, (void *)1000) == 0;
    ok &= result_of(too_much, &value) == -ERANGE; /* ExecutionException */
    ok &= weft_event_wait(&thrice, WEFT_FOREVER) == 0;
    ok &= weft_schedule_cancel(cancelled) == 0 && !ran; /* otherwise the group would wait for it */
    ok &= result_of(weft_schedule_finished(cancelled), &value) == -ECANCELED;

    weft_dispatcher_stop(dispatcher, NULL, 0,
                         WEFT_FOREVER); /* the periodic task ends with the group */
    weft_schedule_stats(often, &stats);
    ok &= stats.runs >= 3 && stats.failures == 1 && stats.last_error == -EIO;
    ok &= weft_group_call(group, NULL, add, NULL) == -ESHUTDOWN; /* RejectedExecutionException */
    printf("%d runs at a fixed rate, %d of them failed; total %ld\n", (int)stats.runs,
           (int)stats.failures, total);
    weft_future_unref(sum);
    weft_future_unref(too_much);
    weft_schedule_unref(soon);
    weft_schedule_unref(often);
    weft_schedule_unref(cancelled);
    weft_dispatcher_destroy(dispatcher);
    return ok ? 0 : 1;
}
