/* Several tenants on one thread: each has a group of a dispatcher, so that its fibers share state
 * without locks, and a tenant that fails stops alone. The failed tenant is restarted in a new
 * group; at the end one of the groups asks the whole dispatcher to stop. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { TENANTS = 3, JOBS = 5 };

static weft_waitgroup jobs_left;

struct tenant {
    const char *name;
    weft_group *group;
    int jobs, fails_at; /* 0: never */
    bool stopped;
};

static void *work(void *arg)
{
    struct tenant *tenant = arg;
    while (!weft_group_is_stopping(tenant->group)) {
        tenant->jobs++;
        if (tenant->jobs == tenant->fails_at) {
            weft_group_fail(-EIO); /* stops this group, and its future fails */
            return NULL;
        }
        if (tenant->jobs <= JOBS) {
            weft_waitgroup_done(&jobs_left);
        }
        weft_group_sleep(weft_after(WEFT_US(500))); /* ends at once when the group is to stop */
    }
    tenant->stopped = true;
    return NULL;
}

static int start(weft_dispatcher *dispatcher, struct tenant *tenant)
{
    const struct weft_group_opts opts = {.name = tenant->name, .on_fatal = WEFT_FATAL_STOPS_GROUP};
    int err = weft_group_create(dispatcher, &tenant->group, &opts);
    return err ? err : weft_group_spawn(tenant->group, NULL, work, tenant, NULL);
}

/* Waits until a failed tenant has ended, prints its error, and starts it again. */
static int restart(weft_dispatcher *dispatcher, struct tenant *tenant)
{
    struct weft_group_stats stats;
    int err = weft_future_get(weft_group_finished(tenant->group), NULL, WEFT_FOREVER);
    weft_group_stats(tenant->group, &stats);
    printf("tenant %s: %s after %d jobs: %s\n", tenant->name, weft_group_state_name(stats.state),
           tenant->jobs, weft_strerror(err));
    if (err != -EIO || stats.state != WEFT_GROUP_FINISHED) {
        return -EBADMSG;
    }
    weft_group_destroy(tenant->group); /* others would stay until the dispatcher is destroyed */
    tenant->jobs = tenant->fails_at = 0;
    return start(dispatcher, tenant);
}

/* An administrator's command; runs in the group of a tenant. */
static void shut_down(void *arg)
{
    (void)arg;
    weft_dispatcher_request_stop(weft_group_dispatcher(weft_group_self()));
}

int main(void)
{
    struct tenant tenants[TENANTS] = {
        {.name = "green"}, {.name = "red", .fails_at = 1}, {.name = "blue"}};
    struct weft_dispatcher_stats stats;
    weft_dispatcher *dispatcher;
    weft_group *refused;
    weft_waitgroup_add(&jobs_left, TENANTS * JOBS);
    int err = weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.name = "shared"});
    if (err) {
        return 1;
    }
    err = weft_dispatcher_start(dispatcher);
    for (int i = 0; !err && i < TENANTS; i++) {
        err = start(dispatcher, &tenants[i]);
    }
    err = err ? err : restart(dispatcher, &tenants[1]);
    err = err ? err : weft_waitgroup_wait(&jobs_left, WEFT_FOREVER); /* all of them make progress */
    if (!err) {
        const struct weft_dump_opts brief = {.no_frames = true};
        weft_dispatcher_dump(dispatcher, stdout, &brief);
        err = weft_group_post(tenants[0].group, shut_down, NULL);
    }
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER); /* waits for the end */
    weft_dispatcher_stats(dispatcher, &stats);
    printf("%s: %u groups, %u unfinished, fibers ran %s\n",
           weft_pool_name(weft_dispatcher_pool(dispatcher)), stats.groups, stats.unfinished,
           stats.executed >= TENANTS * JOBS ? "as often as expected" : "too seldom");
    bool all_stopped = true;
    for (int i = 0; i < TENANTS; i++) {
        all_stopped = all_stopped && tenants[i].stopped;
    }
    bool closed = weft_group_create(dispatcher, &refused, NULL) == -ESHUTDOWN;
    weft_dispatcher_destroy(dispatcher);
    if (err || !all_stopped || !closed || stats.groups != TENANTS || stats.unfinished) {
        fprintf(stderr, "tenants: %s\n", weft_strerror(err ? err : -EBADMSG));
        return 1;
    }
    return 0;
}
