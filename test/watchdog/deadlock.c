/* not under: valgrind */
/* A run that can never end is an error, with a report; a run that an outside event may still end is
 * not. Every case is a separate process, because wake sources belong to the whole process. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <weft/blocking.h>
#include <weft/process.h>

#include "obs/reports.h"
#include "wait/wake_source.h"
#include "watchdog/watchdog.h"

static char said[CHECK_ERR];

/* Runs the case in a child that exits with 0 or fails a check. */
static void in_child(void (*fn)(void *))
{
    int status = check_child(fn, NULL, said, sizeof said);
    check_without_hogs(said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        check_fail(__FILE__, __LINE__, "status %x:\n%s", (unsigned)status, said);
    }
}

static void *park(void *arg)
{
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

/* The main fiber, which joins a fiber that waits for ever. */
static void *join_parked(void *arg)
{
    weft_fiber sleeper;
    CHECK_EQ(weft_spawn(&sleeper, park, NULL, &(struct weft_fiber_opts){.name = "sleeper"}), 0);
    weft_join(sleeper, NULL, WEFT_FOREVER); /* one of the two is cancelled first */
    return arg;
}

static weft_pool *open_caller(unsigned workers)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = workers, .caller = true}),
             0);
    CHECK_EQ(weft_pool_start(pool), 0);
    return pool;
}

static enum weft_wake_source wake_source(char *who)
{
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    if (who) {
        memcpy(who, stats.source_name, sizeof stats.source_name);
    }
    return stats.wake_source;
}

/* --- deadlocks ----------------------------------------------------------------------- */

static void run_for_ever(void *arg)
{
    (void)arg;
    ignore_other_threads();
    for (unsigned workers = 1; workers <= 3; workers++) {
        CHECK_EQ(weft_run(NULL, join_parked, NULL, &(struct weft_pool_opts){.workers = workers},
                          WEFT_FOREVER),
                 -EDEADLK);
    }
}

TEST(deadlocked_run_returns_error_with_report)
{
    in_child(run_for_ever);
    const char *text = said;
    for (int i = 0; i < 3; i++) {
        text = strstr(text, "weft: deadlock: all fibers wait, and nothing can wake");
        CHECK(text);
        CHECK(strstr(text, " main waits on join of #"));
        CHECK(strstr(text, " sleeper waits on park\n"));
        text++;
    }
    CHECK(!strstr(text, "weft: deadlock"));
}

static void run_then_stop(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_pool *pool = open_caller(2);
    CHECK_EQ(weft_pool_run(pool, NULL, join_parked, NULL, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(pool_live(pool), 2);
    CHECK_EQ(weft_pool_run(pool, NULL, park, NULL, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(pool_live(pool), 3);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(pool_live(pool), 3);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    CHECK_EQ(stats.deadlocks, 3);
}

TEST(fibers_stay_after_deadlock_error_until_stop_cancels)
{
    in_child(run_then_stop);
}

static void run_without_fds(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_pool *pool = open_caller(2);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0}), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, join_parked, NULL, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

/* The watchdog opens no file: at any moment it could take a number that the program has closed. */
TEST(deadlock_is_found_without_opening_a_descriptor)
{
    in_child(run_without_fds);
    CHECK(strstr(said, "weft: deadlock"));
}

static void *spawn_parked(void *arg)
{
    CHECK_EQ(weft_spawn(NULL, park, NULL, NULL), 0);
    return arg;
}

static void drain_for_ever(void *arg)
{
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(
        weft_run(NULL, spawn_parked, NULL, &(struct weft_pool_opts){.workers = 2}, WEFT_FOREVER),
        -EDEADLK);
}

TEST(deadlock_in_final_drain_is_reported)
{
    in_child(drain_for_ever);
    CHECK(strstr(said, " waits on park\n"));
}

static void *wait_in_other_pool(void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(arg, &fiber, park, NULL, &(struct weft_fiber_opts){.name = "far"}), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    return NULL;
}

static void two_pools(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "other"});
    CHECK_EQ(weft_run(NULL, wait_in_other_pool, other, NULL, WEFT_FOREVER), -EDEADLK);
    pool_close(other);
}

TEST(deadlock_across_pools_is_reported)
{
    in_child(two_pools);
    CHECK(strstr(said, "pool other: fiber #"));
    CHECK(strstr(said, " far waits on park\n"));
}

/* --- not deadlocks --------------------------------------------------------------------- */

static _Atomic(weft_fiber) parked;

static void *park_until_woken(void *arg)
{
    atomic_store(&parked, weft_self());
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

static void await_outside(const char *what)
{
    char who[32];
    while (!atomic_load(&parked) || wake_source(who) != WEFT_WAKE_SOURCE_EXTERNAL ||
           strncmp(who, what, strlen(what)) != 0) {
        sched_yield();
    }
}

static void *wake_later(void *arg)
{
    await_outside("thread ");
    CHECK_EQ(weft_fiber_unpark(atomic_load(&parked)), 0);
    return arg;
}

static void woken_from_outside(void *arg)
{
    (void)arg;
    pthread_t thread = thread_open(wake_later, NULL);
    CHECK_EQ(weft_run(NULL, park_until_woken, NULL, NULL, WEFT_FOREVER), 0);
    thread_close(thread);
}

TEST(outside_thread_that_may_wake_prevents_deadlock_report)
{
    in_child(woken_from_outside);
    CHECK_STR(said, "");
}

static void *sleep_long(void *arg)
{
    while (wake_source(NULL) != WEFT_WAKE_SOURCE_TIMER) {
        CHECK_EQ(weft_sleep(weft_after(50000000)), 0);
    }
    return arg;
}

static void timer_pending(void *arg)
{
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(weft_run(NULL, sleep_long, NULL, NULL, WEFT_FOREVER), 0);
}

TEST(pending_timer_prevents_deadlock_report)
{
    in_child(timer_pending);
    CHECK_STR(said, "");
}

static void ring_in(int ms)
{
    struct itimerval timer = {.it_value = {.tv_usec = ms * 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Exits when the watchdog has checked. */
static void leave(int signo)
{
    (void)signo;
    char who[32], expected[32];
    snprintf(expected, sizeof expected, "handler of signal %d", SIGALRM);
    if (wake_source(who) == WEFT_WAKE_SOURCE_EXTERNAL && strcmp(who, expected) == 0) {
        _exit(0);
    }
    ring_in(50);
}

static void signal_expected(void *arg)
{
    (void)arg;
    ignore_other_threads();
    signal(SIGALRM, leave);
    ring_in(50);
    weft_run(NULL, park, NULL, NULL, WEFT_FOREVER);
    _exit(2);
}

TEST(signal_handler_prevents_deadlock_report)
{
    in_child(signal_expected);
    CHECK_STR(said, "");
}

/* An earlier use of a signal by Weft does not make the program's handler Weft's. */
static void signal_of_dumps(void *arg)
{
    CHECK_EQ(weft_dump_on_signal(SIGALRM, STDERR_FILENO, NULL), 0);
    weft_dump_on_signal_stop();
    signal_expected(arg);
}

static void *dump_then_park(void *arg)
{
    FILE *out = fopen("/dev/null", "w");
    CHECK(out != NULL);
    CHECK_EQ(weft_dump(out, NULL), 0);
    fclose(out);
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void with_dumps(void *arg)
{
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(weft_dump_on_signal(SIGUSR1, STDERR_FILENO, NULL), 0);
    CHECK_EQ(weft_run(NULL, dump_then_park, NULL, NULL, WEFT_FOREVER), -EDEADLK);
    weft_dump_on_signal_stop();
}

TEST(dump_signal_handler_is_no_wake_source)
{
    in_child(signal_of_dumps);
    CHECK_STR(said, "");
    in_child(with_dumps);
    CHECK(strstr(said, "weft: deadlock"));
}

static void switched_off(void *arg)
{
    (void)arg;
    ignore_other_threads();
    ring_in(300); /* ends the process */
    weft_run(NULL, park, NULL, &(struct weft_pool_opts){.deadlock_off = true}, WEFT_FOREVER);
    _exit(2);
}

TEST(deadlock_detection_can_be_disabled_per_pool)
{
    int status = check_child(switched_off, NULL, said, sizeof said);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    CHECK_STR(check_without_hogs(said), "");
}

/* --- descriptors --------------------------------------------------------------------------- */

static int ends[2];

static void *read_until_closed(void *arg)
{
    char byte;
    atomic_store(&parked, weft_self());
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), -EBADFD);
    return arg;
}

static void *close_it(void *arg)
{
    while (!atomic_load(&parked)) {
        sched_yield();
    }
    await_state(atomic_load(&parked), WEFT_FIBER_WAITING);
    CHECK_EQ(weft_close(ends[0]), 0);
    return arg;
}

static void *read_one(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    return arg;
}

/* The wait of a destroyed pool began on its worker, and a thread that is no worker ended it; a
 * later wait still counts. Its byte comes from another process, after the watchdog has checked. */
static void waited_before(void *arg)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = WEFT_DRIVER_EPOLL};
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    pthread_t thread = thread_open(close_it, NULL);
    CHECK_EQ(weft_run(NULL, read_until_closed, NULL, &opts, WEFT_FOREVER), 0);
    thread_close(thread);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    pid_t writer = fork();
    if (writer == 0) {
        usleep(300000);
        _exit(write(ends[1], "x", 1) != 1);
    }
    CHECK_EQ(weft_run(NULL, read_one, NULL, &opts, WEFT_FOREVER), 0);
    int status;
    CHECK_EQ(waitpid(writer, &status, 0), writer);
    CHECK_EQ(status, 0);
}

TEST(fd_wait_prevents_deadlock_report_after_earlier_waits_ended)
{
    in_child(waited_before);
    CHECK_STR(said, "");
}

/* --- references --------------------------------------------------------------------------- */

static void *park_on_source(void *arg)
{
    weft__wake_source_ref();
    atomic_store(&parked, weft_self());
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

/* A source's thread: it belongs to Weft, so that only the reference counts. */
static void *serve_source(void *wakes)
{
    CHECK_EQ(weft__wake_source_ignore_thread(), 0);
    await_outside("an event source");
    if (wakes) {
        CHECK_EQ(weft_fiber_unpark(atomic_load(&parked)), 0);
    }
    weft__wake_source_unref();
    weft__wake_source_unignore_thread();
    /* The thread stays a while, but is no wake source: it does nothing more. */
    weft_watchdog_ignore_thread(0);
    return NULL;
}

static void source_wakes(void *arg)
{
    (void)arg;
    ignore_other_threads();
    pthread_t thread = thread_open(serve_source, &parked);
    CHECK_EQ(weft_run(NULL, park_on_source, NULL, NULL, WEFT_FOREVER), 0);
    thread_close(thread);
}

static void source_gives_up(void *arg)
{
    (void)arg;
    ignore_other_threads();
    pthread_t thread = thread_open(serve_source, NULL);
    CHECK_EQ(weft_run(NULL, park_on_source, NULL, NULL, WEFT_FOREVER), -EDEADLK);
    thread_close(thread);
}

TEST(wake_source_prevents_deadlock_report_until_given_up)
{
    in_child(source_wakes);
    CHECK_STR(said, "");
    in_child(source_gives_up);
    CHECK(strstr(said, "weft: deadlock"));
}

/* --- Weft's own threads --------------------------------------------------------------------- */

static void *nothing(void *arg)
{
    return arg;
}

/* The thread may be the last wake source, and is none when it is done. */
static void *call_then_park(void *arg)
{
    CHECK_EQ(weft_blocking_call(NULL, NULL, nothing, NULL, WEFT_FOREVER), 0);
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void used_blocking_pool(void *arg)
{
    struct weft_blocking_stats stats;
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(weft_run(NULL, call_then_park, NULL, NULL, WEFT_FOREVER), -EDEADLK);
    weft_blocking_stats(NULL, &stats);
    CHECK_EQ(stats.threads, 1); /* it exists, and is idle */
}

static void *returns_when_seen(void *arg)
{
    await_outside("an event source");
    return arg;
}

static void *call_long(void *arg)
{
    atomic_store(&parked, weft_self());
    CHECK_EQ(weft_blocking_call(NULL, NULL, returns_when_seen, NULL, WEFT_FOREVER), 0);
    return arg;
}

static void *call_long_then_park(void *arg)
{
    call_long(NULL);
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void long_call(void *arg)
{
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(weft_run(NULL, call_long, NULL, NULL, WEFT_FOREVER), 0);
    fprintf(stderr, "over\n");
    CHECK_EQ(weft_run(NULL, call_long_then_park, NULL, NULL, WEFT_FOREVER), -EDEADLK);
}

TEST(blocking_call_is_wake_source_until_return)
{
    in_child(used_blocking_pool);
    CHECK(strstr(said, "weft: deadlock"));
    in_child(long_call);
    CHECK(strncmp(said, "over\n", 5) == 0);
    CHECK(strstr(said, "weft: deadlock"));
}

static void *wait_for_child_then_park(void *arg)
{
    const char *argv[] = {"/bin/sh", "-c", "exit 3", NULL};
    struct weft_process_status status;
    weft_process *process;
    CHECK_EQ(weft_process_spawn(&process, argv, NULL), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
    weft_process_close(process);
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void *wait_for_signal(void *arg)
{
    struct weft_signal_info info;
    atomic_store(&parked, weft_self());
    CHECK_EQ(weft_signal_wait(arg, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGALRM);
    weft_signal_close(arg);
    weft_fiber_park(WEFT_FOREVER);
    return NULL;
}

static void used_watcher(void *arg)
{
    const int signals[] = {SIGALRM};
    weft_signal_set *set;
    (void)arg;
    ignore_other_threads();
    CHECK_EQ(weft_run(NULL, wait_for_child_then_park, NULL, NULL, WEFT_FOREVER), -EDEADLK);
    fprintf(stderr, "over\n");
    CHECK_EQ(weft_signal_open(&set, signals, 1, NULL), 0);
    sigset_t blocked; /* in all threads: no handler, which ThreadSanitizer would delay */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
    ring_in(60);
    CHECK_EQ(weft_run(NULL, wait_for_signal, set, NULL, WEFT_FOREVER), -EDEADLK);
}

TEST(watched_child_or_signal_is_wake_source_until_arrival)
{
    in_child(used_watcher);
    const char *first = strstr(said, "weft: deadlock"), *over = strstr(said, "over\n");
    CHECK(first && over && first < over && strstr(over, "weft: deadlock"));
}

/* --- plain threads that wait inside Weft ------------------------------------------------------ */

static weft_event never = WEFT_EVENT_INIT;
static weft_mutex held = WEFT_MUTEX_INIT;
static weft_fiber sleeper;
static int reported;

static weft_fiber spawn_sleeper(weft_pool *pool)
{
    CHECK_EQ(
        weft_pool_spawn(pool, &sleeper, park, NULL, &(struct weft_fiber_opts){.name = "sleeper"}),
        0);
    return sleeper;
}

/* Announces it, then does what no other thread is left to do. */
static void wake_sleeper(enum weft_report_kind kind, const char *text, void *arg)
{
    (void)arg;
    fputs(text, stderr);
    if (kind == WEFT_REPORT_DEADLOCK) {
        reported++;
        CHECK_EQ(weft_fiber_unpark(sleeper), 0);
    }
}

static void join_from_thread(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_on_report(wake_sleeper, NULL);
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = workers});
        CHECK_EQ(weft_join(spawn_sleeper(pool), NULL, WEFT_FOREVER), 0);
        pool_close(pool);
    }
    CHECK_EQ(reported, 2);
    fprintf(stderr, "tid %d\n", (int)syscall(SYS_gettid));
}

TEST(thread_joining_forever_is_part_of_deadlock)
{
    in_child(join_from_thread);
    char line[80];
    const char *tid = strstr(said, "tid ");
    CHECK(tid);
    snprintf(line, sizeof line, "\n  thread %d waits on join of #", atoi(tid + 4));
    CHECK(strstr(said, "weft: deadlock: all fibers wait"));
    CHECK(strstr(said, line));
    CHECK(strstr(strstr(said, line), " sleeper\n"));
    CHECK(strstr(said, " sleeper waits on park\n"));
}

static void stop_from_thread(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_on_report(wake_sleeper, NULL);
    weft_pool *pool = pool_open(NULL);
    CHECK_EQ(weft_fiber_detach(spawn_sleeper(pool)), 0);
    pool_close(pool);
    CHECK_EQ(reported, 1);
}

TEST(thread_draining_pool_forever_is_part_of_deadlock)
{
    in_child(stop_from_thread);
    CHECK(strstr(said, " waits on stop\n"));
}

static void *await_event(void *arg)
{
    CHECK_EQ(weft_event_wait(&never, WEFT_FOREVER), 0);
    return arg;
}

static void *await_mutex(void *arg)
{
    CHECK_EQ(weft_mutex_lock(&held, WEFT_FOREVER), 0);
    weft_mutex_unlock(&held);
    return arg;
}

static void set_event(enum weft_report_kind kind, const char *text, void *arg)
{
    fputs(text, stderr);
    if (kind == WEFT_REPORT_DEADLOCK) {
        weft_event_set(&never);
        wake_sleeper(kind, "", arg);
    }
}

static void several_threads(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_on_report(set_event, NULL);
    weft_event_init(&never, &(struct weft_sync_opts){.name = "never"});
    weft_pool *pool = pool_open(NULL);
    CHECK_EQ(weft_mutex_lock(&held, WEFT_FOREVER), 0);
    pthread_t first = thread_open(await_event, NULL), second = thread_open(await_mutex, NULL);
    CHECK_EQ(weft_join(spawn_sleeper(pool), NULL, WEFT_FOREVER), 0);
    weft_mutex_unlock(&held);
    thread_close(first);
    thread_close(second);
    pool_close(pool);
    CHECK_EQ(reported, 1);
}

TEST(deadlock_report_names_waiting_threads_and_objects)
{
    in_child(several_threads);
    CHECK(strstr(said, " waits on event never\n"));
    CHECK(strstr(said, " waits on mutex 0x"));
    CHECK(strstr(said, " waits on join of #"));
}

static weft_chan *empty;

static void close_channel(enum weft_report_kind kind, const char *text, void *arg)
{
    (void)arg;
    fputs(text, stderr);
    if (kind == WEFT_REPORT_DEADLOCK) {
        weft_chan_close(empty);
    }
}

/* No sender is left: the fiber that should have sent has ended. */
static void receive_in_thread(void *arg)
{
    weft_fiber fiber;
    char byte;
    (void)arg;
    ignore_other_threads();
    weft_on_report(close_channel, NULL);
    CHECK_EQ(weft_chan_create(&empty, 1, &(struct weft_chan_opts){.name = "empty"}), 0);
    weft_pool *pool = pool_open(NULL);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, nothing, NULL, NULL), 0);
    CHECK_EQ(weft_chan_recv(empty, &byte, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
    weft_chan_destroy(empty);
}

TEST(thread_waiting_forever_after_last_fiber_is_reported)
{
    in_child(receive_in_thread);
    CHECK(strstr(said, "weft: deadlock"));
    CHECK(strstr(said, " empty\n"));
}

/* A deadline lets it continue by itself. */
static void *wake_by_deadline(void *arg)
{
    char who[32], expected[32];
    snprintf(expected, sizeof expected, "thread %d", (int)syscall(SYS_gettid));
    do {
        CHECK_EQ(weft_event_wait(&never, weft_after(30000000)), -ETIMEDOUT);
    } while (wake_source(who) != WEFT_WAKE_SOURCE_EXTERNAL || strcmp(who, expected) != 0);
    CHECK_EQ(weft_fiber_unpark(sleeper), 0);
    return arg;
}

static void thread_with_deadline(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft_pool *pool = pool_open(NULL);
    spawn_sleeper(pool);
    pthread_t thread = thread_open(wake_by_deadline, NULL);
    CHECK_EQ(weft_join(sleeper, NULL, WEFT_FOREVER), 0);
    thread_close(thread);
    pool_close(pool);
}

TEST(thread_with_deadline_prevents_deadlock_report)
{
    in_child(thread_with_deadline);
    CHECK_STR(said, "");
}

/* It wakes no fiber: it ends the process that is waited for. */
static void *end_process(void *process)
{
    char who[32];
    CHECK_EQ(weft_watchdog_ignore_thread(0), 0);
    while (wake_source(who) != WEFT_WAKE_SOURCE_EXTERNAL || strcmp(who, "an event source") != 0) {
        sched_yield();
    }
    CHECK_EQ(weft_process_kill(process, SIGKILL), 0);
    return NULL;
}

static void thread_waits_for_process(void *arg)
{
    const char *argv[] = {"/bin/sleep", "1000", NULL};
    struct weft_process_status status;
    weft_process *process;
    (void)arg;
    ignore_other_threads();
    weft_pool *pool = pool_open(NULL);
    spawn_sleeper(pool);
    CHECK_EQ(weft_process_spawn(&process, argv, NULL), 0);
    pthread_t thread = thread_open(end_process, process);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
    thread_close(thread);
    weft_process_close(process);
    CHECK_EQ(weft_fiber_unpark(sleeper), 0);
    CHECK_EQ(weft_join(sleeper, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

TEST(thread_waiting_for_process_prevents_deadlock_report)
{
    in_child(thread_waits_for_process);
    CHECK_STR(said, "");
}

/* A token circulates between threads and fibers, all of which wait without a deadline: at every
 * moment at most one is not in its wait, often one that was fired and has not resumed. */
#define RING 4

static weft_chan *hops[RING];
static int rounds_to_go;

static void *pass_on(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;
    int left;
    while (weft_chan_recv(hops[i], &left, WEFT_FOREVER) == 0) {
        left--;
        if (left <= 0) {
            for (size_t j = 0; j < RING; j++) {
                weft_chan_close(hops[j]);
            }
            break;
        }
        CHECK_EQ(weft_chan_send(hops[(i + 1) % RING], &left, WEFT_FOREVER), 0);
    }
    return NULL;
}

static void token_goes_round(void *arg)
{
    pthread_t threads[RING / 2];
    (void)arg;
    ignore_other_threads();
    weft__watchdog_set_tick(20000); /* it checks as often as possible */
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (size_t i = 0; i < RING; i++) {
        CHECK_EQ(weft_chan_create(&hops[i], sizeof(int), &(struct weft_chan_opts){.capacity = 1}),
                 0);
    }
    rounds_to_go = (int)check_scale(20000);
    CHECK_EQ(weft_chan_send(hops[0], &rounds_to_go, WEFT_FOREVER), 0);
    weft_fiber fibers[RING / 2];
    for (size_t i = 0; i < RING / 2; i++) { /* two threads, then two fibers */
        threads[i] = thread_open(pass_on, (void *)(uintptr_t)i);
        CHECK_EQ(
            weft_pool_spawn(pool, &fibers[i], pass_on, (void *)(uintptr_t)(i + RING / 2), NULL), 0);
    }
    for (size_t i = 0; i < RING / 2; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    for (size_t i = 0; i < RING / 2; i++) {
        thread_close(threads[i]);
    }
    pool_close(pool);
    for (size_t i = 0; i < RING; i++) {
        weft_chan_destroy(hops[i]);
    }
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    CHECK_EQ(stats.deadlocks, 0);
}

TEST(just_woken_thread_is_not_counted_as_waiting)
{
    in_child(token_goes_round);
    CHECK_STR(said, "");
}
