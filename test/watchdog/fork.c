/* Forks a process whose watchdog is running: the child has no watchdog until it creates a pool, and
 * then has one that works. */
/* not under: qemu valgrind asan tsan */
/* (The sanitizers' allocators do not survive a fork while another thread is in them, and the
 * watchdog allocates.) */
#include "obs/reports.h"
#include "pool/forks.h"
#include "watchdog/watchdog.h"

static atomic_bool enough;

static void *be_busy(void *arg)
{
    while (!atomic_load(&enough)) {
        weft_yield();
    }
    return arg;
}

/* Keeps changing the data that the watchdog reads. */
static void *change_lists(void *arg)
{
    while (!atomic_load(&enough)) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
        for (int i = 0; i < 100; i++) {
            weft_on_report(i % 2 ? reports_add : NULL, NULL);
            weft_watchdog_ignore_thread(1000000 + i);
        }
        pool_close(pool);
    }
    return arg;
}

static int watchdogs(void)
{
    int n = 0;
    char path[300], name[32];
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir);
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            n += fgets(name, sizeof name, file) && !strcmp(name, "weft_watchdog\n");
            fclose(file);
        }
    }
    closedir(dir);
    return n;
}

/* A joined fiber is listed a moment longer. */
static void await_watchdogs(int n)
{
    while (watchdogs() != n) {
        sched_yield();
    }
}

static void *park(void *arg)
{
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void *join_parked(void *arg)
{
    weft_fiber sleeper;
    await_watchdogs(1); /* it names itself */
    CHECK_EQ(weft_spawn(&sleeper, park, NULL, NULL), 0);
    weft_join(sleeper, NULL, WEFT_FOREVER);
    return arg;
}

static void *hog(void *arg)
{
    while (reports_of(WEFT_REPORT_HOG) == 0) {
        usleep(100);
    }
    return arg;
}

/* Stuck, hogged, and ended: by a new watchdog each time. */
static void be_watched(void *arg)
{
    (void)arg;
    CHECK_EQ(watchdogs(), 0);
    pthread_mutex_init(&reports_lock, NULL); /* the parent's watchdog may have reported it */
    reports_begin();
    ignore_other_threads();
    CHECK_EQ(
        weft_run(NULL, join_parked, NULL, &(struct weft_pool_opts){.workers = 2}, WEFT_FOREVER),
        -EDEADLK);
    CHECK_EQ(reports_of(WEFT_REPORT_DEADLOCK), 1);
    await_watchdogs(0);
    CHECK_EQ(weft_run(NULL, hog, NULL, &(struct weft_pool_opts){.workers = 1, .hog_ns = 1000000},
                      WEFT_FOREVER),
             0);
    await_watchdogs(0);
}

static void fork_often(void)
{
    char err[CHECK_ERR];
    /* ThreadSanitizer delays signals, so each report there waits in vain for a backtrace. */
    for (int i = 0; i < (WEFT__TSAN ? 3 : 20); i++) {
        int status = check_child(be_watched, NULL, err, sizeof err);
        if (status != 0) {
            fprintf(stderr, "%s", err);
        }
        CHECK_EQ(status, 0);
    }
}

TEST(forked_child_has_no_watchdog_until_pool_is_created)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft__watchdog_set_tick(200000);
    atomic_store(&enough, false);
    CHECK_EQ(weft_pool_submit(pool, be_busy, NULL), 0);
    pthread_t changer = thread_open(change_lists, NULL);
    fork_often();
    atomic_store(&enough, true);
    thread_close(changer);
    pool_close(pool);
    weft_on_report(NULL, NULL);
    await_watchdogs(0);
}

TEST(forked_child_of_resting_watchdog_is_watched)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    fork_often();
    pool_close(pool);
}
