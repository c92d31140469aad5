/* Dongting: new Dispatcher("my-dispatcher"), start, startGroup, fireFiber, stop(timeout),
 * shutdownFuture.get(). A group exists as soon as it is created, and stop waits. */
#include <stdio.h>
#include <weft/weft.h>

/* Shared by the fibers of a group: one thread, no lock. */
struct counter {
    int value;
};

static void *count(void *arg)
{
    struct counter *counter = arg;
    for (int i = 0; i < 1000; i++) {
        counter->value++;
        weft_yield();
    }
    printf("in group %s of dispatcher %s\n", weft_group_name(weft_group_self()),
           weft_dispatcher_name(weft_dispatcher_self()));
    return NULL;
}

int main(void)
{
    static struct counter counters[2];
    weft_dispatcher *dispatcher;
    weft_group *groups[2];
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.name = "my-disp"}) ||
        weft_dispatcher_start(dispatcher)) {
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        struct weft_group_opts opts = {.name = i ? "second" : "first"};
        if (weft_group_create(dispatcher, &groups[i], &opts) ||
            weft_group_spawn(groups[i], NULL, count, &counters[i], NULL) ||
            weft_group_spawn(groups[i], NULL, count, &counters[i], NULL)) {
            return 1;
        }
    }

    /* group.requestShutdown() and its shutdownFuture. No fiber is cancelled: the fibers end by
     * themselves. */
    weft_group_stop(groups[0]);
    int err = weft_future_wait(weft_group_finished(groups[0]), weft_after(WEFT_SECONDS(10)));

    /* dispatcher.stop(new DtTime(10, SECONDS)) for the remaining groups; returns how many were
     * late. */
    const char *late[2];
    int overdue = weft_dispatcher_stop(dispatcher, late, 2, weft_after(WEFT_SECONDS(10)));

    struct weft_group_stats stats; /* ShareStatus: readable by other threads */
    weft_group_stats(groups[1], &stats);
    bool finished = stats.state == WEFT_GROUP_FINISHED && stats.fibers == 0;
    weft_dispatcher_destroy(dispatcher); /* also destroys its groups */
    return err || overdue || !finished || counters[0].value != 2000 || counters[1].value != 2000;
}
