/* Dongting: run(), fill(), pollTimeout = 100 ms ("default 50 ms"). A dispatcher sleeps until there
 * is work; max_poll_ns makes it wake periodically as well. Without run(), the program has its own
 * loop and lends its thread. */
#include <poll.h>
#include <stdio.h>
#include <weft/weft.h>

static void *beat(void *arg)
{
    for (int i = 0; i < 3; i++) {
        weft_sleep(weft_after(WEFT_MS(2)));
        ++*(int *)arg;
    }
    return NULL;
}

/* How the dispatcher's own thread waits: at most 100 ms, and only after 4 rounds without work, so
 * that work which follows at once finds it awake. */
static int with_a_thread(int *beats)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    struct weft_dispatcher_opts opts = {.max_poll_ns = WEFT_MS(100), .spin_rounds = 4};
    if (weft_dispatcher_create(&dispatcher, &opts) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_spawn(group, NULL, beat, beats, NULL)) {
        return 1;
    }
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    return 0;
}

/* poll(2) on a descriptor until a deadline, rounded up. */
static void wait_for(int fd, int64_t deadline)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t left = deadline - weft_now();
    poll(&ready, 1, deadline == WEFT_FOREVER ? -1 : left <= 0 ? 0 : (int)(left / WEFT_MS(1)) + 1);
}

static int in_a_loop(int *beats)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_spawn(group, NULL, beat, beats, NULL)) {
        return 1;
    }
    weft_group_stop(group);
    while (weft_dispatcher_poll(dispatcher) >= 0 &&
           !weft_future_is_done(weft_group_finished(group))) {
        wait_for(weft_dispatcher_fd(dispatcher), weft_dispatcher_next_deadline(dispatcher));
    }
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    return 0;
}

int main(void)
{
    int beats = 0;
    int failed = with_a_thread(&beats) || in_a_loop(&beats);
    printf("%d beats\n", beats);
    return failed || beats != 6;
}
