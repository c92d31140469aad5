/* A fork while pools are running: what the child may do, and which calls abort the child with a
 * message. */
/* not under: qemu asan */
/* (AddressSanitizer's allocator does not survive a fork while another thread is inside it, and
 * starting workers and the watchdog allocate.) */
#include <signal.h>
#include <sys/resource.h>

#include <weft/blocking.h>

#include "pool/fixture.h"
#include "pool/forks.h"

/* --- a busy parent --------------------------------------------------------------------- */

static weft_pool *busy_pool;
static atomic_int enough;

static void use_buffers(void)
{
    for (size_t bytes = 100; bytes < 1 << 20; bytes *= 10) {
        weft_buf *buf = weft_buf_alloc(bytes, 0);
        CHECK(buf);
        weft_buf_free(buf);
    }
}

static void *leaf(void *arg)
{
    weft_yield();
    use_buffers();
    return arg;
}

/* Creates and ends fibers of several stack sizes all the time: every shared stack pool is in
 * use. */
static void *be_busy(void *arg)
{
    weft_fiber children[40];
    while (!atomic_load(&enough)) {
        for (size_t i = 0; i < 40; i++) {
            struct weft_fiber_opts opts = {.stack_bytes = (size_t)16384 << i % 4};
            CHECK_EQ(weft_spawn(&children[i], leaf, arg, &opts), 0);
        }
        for (int i = 0; i < 40; i++) {
            CHECK_EQ(weft_join(children[i], NULL, WEFT_FOREVER), 0);
        }
    }
    return NULL;
}

static void busy_open(void)
{
    atomic_store(&enough, 0);
    busy_pool = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "busy"});
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_submit(busy_pool, be_busy, NULL), 0);
    }
}

static void busy_close(void)
{
    atomic_store(&enough, 1);
    pool_close(busy_pool);
}

/* --- a child with its own pools ------------------------------------------------------------ */

static void *twice(void *arg)
{
    return (void *)((intptr_t)arg * 2);
}

static void *use_everything(void *arg)
{
    weft_fiber children[200];
    void *result;
    for (intptr_t i = 0; i < 200; i++) {
        CHECK_EQ(weft_spawn(&children[i], twice, (void *)i, NULL), 0);
    }
    for (intptr_t i = 0; i < 200; i++) {
        CHECK_EQ(weft_join(children[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 2 * i);
    }
    use_buffers();
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    CHECK_EQ(weft_blocking_call(NULL, &result, twice, (void *)5, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 10);
    return arg;
}

static void live_anew(void *arg)
{
    (void)arg;
    use_buffers();
    CHECK_EQ(
        weft_run(NULL, use_everything, NULL, &(struct weft_pool_opts){.workers = 2}, WEFT_FOREVER),
        0);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "anew"});
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, use_everything, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0); /* walks over all blocks */
    weft_pool_destroy(pool);
}

TEST(forked_child_of_busy_process_can_use_pools)
{
    char err[CHECK_ERR];
    void *result;
    CHECK_EQ(weft_blocking_call(NULL, &result, twice, NULL, WEFT_FOREVER), 0);
    busy_open();
    for (int i = 0; i < 20; i++) {
        int status = check_child(live_anew, NULL, err, sizeof err);
        if (status != 0) {
            fprintf(stderr, "%s", err);
        }
        CHECK_EQ(status, 0);
    }
    busy_close();
    run_in_fiber(2, use_everything, NULL); /* ... and the parent continues */
}

static void *fork_in_fiber(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        char err[CHECK_ERR];
        int status = check_child(live_anew, NULL, err, sizeof err);
        if (status != 0) {
            fprintf(stderr, "%s", err);
        }
        CHECK_EQ(status, 0);
        weft_yield();
    }
    return use_everything(NULL);
}

TEST(forked_child_of_fiber_can_use_pools)
{
    /* A large stack: on it the child runs a pool's caller, with a checker's red zones. */
    weft_fiber fiber;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    struct weft_fiber_opts opts = {.stack_bytes = 1 << 20};
    CHECK_EQ(weft_pool_spawn(pool, &fiber, fork_in_fiber, NULL, &opts), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

static void child_of_child(void *arg)
{
    char err[CHECK_ERR];
    live_anew(arg);
    CHECK_EQ(check_child(live_anew, NULL, err, sizeof err), 0);
}

TEST(forked_child_can_fork_again)
{
    char err[CHECK_ERR];
    CHECK_EQ(check_child(child_of_child, NULL, err, sizeof err), 0);
}

static void *exec_in_fiber(void *arg)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(127);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    return arg;
}

TEST(forked_child_can_exec)
{
    run_in_fiber(1, exec_in_fiber, NULL);
}

/* --- calls that abort the child --------------------------------------------------------------- */

static weft_fiber old_fiber, old_created;
static weft_blocking_pool *old_blocking;

static void spawns(void *arg)
{
    weft_pool_spawn(busy_pool, NULL, twice, arg, NULL);
}

static void submits(void *arg)
{
    weft_pool_submit(busy_pool, twice, arg);
}

static void starts(void *arg)
{
    (void)arg;
    weft_pool_start(busy_pool);
}

static void stops(void *arg)
{
    (void)arg;
    weft_pool_stop(busy_pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
}

static void destroys(void *arg)
{
    (void)arg;
    weft_pool_destroy(busy_pool);
}

static void runs(void *arg)
{
    weft_pool_run(busy_pool, NULL, twice, arg, WEFT_FOREVER);
}

static void joins(void *arg)
{
    (void)arg;
    weft_join(old_fiber, NULL, WEFT_FOREVER);
}

static void submits_created(void *arg)
{
    (void)arg;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber_submit(old_created, pool, WEFT_ANY_WORKER);
}

static void calls(void *arg)
{
    weft_blocking_call(old_blocking, NULL, twice, arg, WEFT_FOREVER);
}

static void expect_abort(void (*fn)(void *), const char *message)
{
    char err[CHECK_ERR];
    int status = check_child(fn, NULL, err, sizeof err);
    if (!WIFSIGNALED(status) || !strstr(err, message)) {
        fprintf(stderr, "expected: %s\nfound: %s\n", message, err);
    }
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK(strstr(err, message));
}

TEST(use_of_pre_fork_object_aborts_child)
{
    static const char pool_text[] =
        "pool busy was created before fork() and is used in the child: create a new one";
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    busy_open();
    CHECK_EQ(weft_pool_spawn(busy_pool, &old_fiber, be_busy, NULL, NULL), 0);
    CHECK_EQ(weft_fiber_create(&old_created, twice, NULL, NULL), 0);
    CHECK_EQ(weft_blocking_create(&old_blocking, &(struct weft_blocking_opts){.name = "old"}), 0);
    expect_abort(spawns, pool_text);
    expect_abort(submits, pool_text);
    expect_abort(starts, pool_text);
    expect_abort(stops, pool_text);
    expect_abort(destroys, pool_text);
    expect_abort(runs, pool_text);
    expect_abort(joins, "was created before fork() and is used in the child");
    expect_abort(submits_created, "was created before fork() and is used in the child");
    expect_abort(calls, "blocking pool old was created before fork() and is used in the child");
    CHECK_EQ(weft_fiber_discard(old_created), 0);
    CHECK_EQ(weft_blocking_stop(old_blocking, WEFT_FOREVER), 0);
    weft_blocking_destroy(old_blocking);
    weft_fiber_detach(old_fiber);
    busy_close();
}

static void spawns_in_orphan(void *arg)
{
    weft_spawn(NULL, twice, arg, NULL);
}

static void exits_in_orphan(void *arg)
{
    weft_fiber_exit(arg);
}

static weft_fiber_key key;

static void parks_in_orphan(void *arg)
{
    (void)arg;
    weft_fiber_park(WEFT_FOREVER);
}

static void shields_in_orphan(void *arg)
{
    (void)arg;
    weft_fiber_shield_enter();
}

static void unshields_in_orphan(void *arg)
{
    (void)arg;
    weft_fiber_shield_leave();
}

static void sets_in_orphan(void *arg)
{
    weft_fiber_set_local(key, arg);
}

static void gets_in_orphan(void *arg)
{
    (void)arg;
    weft_fiber_get_local(key);
}

static void pushes_in_orphan(void *arg)
{
    struct weft_fiber_cleanup node;
    weft_fiber_cleanup_push(&node, free, arg);
}

static void pops_in_orphan(void *arg)
{
    struct weft_fiber_cleanup node = {.arg = arg};
    weft_fiber_cleanup_pop(&node, false);
}

static void names_in_orphan(void *arg)
{
    (void)arg;
    weft_fiber_set_name("orphan");
}

static void switches_in_orphan(void *arg)
{
    (void)arg;
    weft_fiber_migrate(busy_pool, WEFT_ANY_WORKER);
}

static void hops_in_orphan(void *arg)
{
    struct weft_migration hop;
    (void)arg;
    weft_migration_enter(&hop, busy_pool, WEFT_ANY_WORKER);
}

static void *misuse_in_fiber(void *arg)
{
    static const struct {
        void (*fn)(void *);
        const char *name;
    } calls[] = {
        {spawns_in_orphan, "weft_spawn"},
        {exits_in_orphan, "weft_fiber_exit"},
        {parks_in_orphan, "weft_fiber_park"},
        {shields_in_orphan, "weft_fiber_shield_enter"},
        {unshields_in_orphan, "weft_fiber_shield_leave"},
        {sets_in_orphan, "weft_fiber_set_local"},
        {gets_in_orphan, "weft_fiber_get_local"},
        {pushes_in_orphan, "weft_fiber_cleanup_push"},
        {pops_in_orphan, "weft_fiber_cleanup_pop"},
        {names_in_orphan, "weft_fiber_set_name"},
        {switches_in_orphan, "weft_fiber_migrate"},
        {hops_in_orphan, "weft_migration_enter"},
    };
    CHECK_EQ(weft_fiber_key_create(&key, NULL), 0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[80];
        snprintf(text, sizeof text, "%s by a fiber that called fork(), in the child",
                 calls[i].name);
        expect_abort(calls[i].fn, text);
    }
    return arg;
}

TEST(forking_fiber_is_plain_thread_in_child)
{
    run_in_fiber(1, misuse_in_fiber, NULL);
}

static void *is_plain(void *arg)
{
    CHECK_EQ(weft_fiber_park(0), -ENXIO);
    CHECK_EQ(weft_fiber_set_local(key, arg), -ENXIO);
    return arg;
}

/* Calls that need no fiber work as on any plain thread; and a thread created in the child was never
 * a worker. */
static void lives_as_a_thread(void *arg)
{
    (void)arg;
    int64_t before = weft_now();
    weft_yield();
    CHECK_EQ(weft_sleep(weft_after(1000000)), 0);
    CHECK(weft_now() - before >= 1000000);
    CHECK_EQ(weft_self(), WEFT_NO_FIBER);
    thread_close(thread_open(is_plain, NULL));
}

static void expect_status(void (*fn)(void *), int code)
{
    char err[CHECK_ERR];
    int status = check_child(fn, NULL, err, sizeof err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code ||
        strcmp(check_without_hogs(err), "") != 0) {
        check_fail(__FILE__, __LINE__, "status %x: %s", (unsigned)status, err);
    }
}

static void *go_on_in_child(void *arg)
{
    CHECK_EQ(weft_fiber_key_create(&key, NULL), 0);
    expect_status(lives_as_a_thread, 0);
    return arg;
}

TEST(forking_fiber_can_yield_and_sleep_in_child)
{
    run_in_fiber(1, go_on_in_child, NULL);
}

static void exits(void *arg)
{
    (void)arg;
    exit(7); /* NOLINT(concurrency-mt-unsafe) */
}

static void *exit_in_child(void *arg)
{
    expect_status(exits, 7);
    return arg;
}

TEST(forked_child_can_exit)
{
    void *result;
    weft_fiber fiber;
    CHECK_EQ(weft_blocking_call(NULL, &result, twice, NULL, WEFT_FOREVER), 0);
    busy_open();
    for (int i = 0; i < 10; i++) {
        exit_in_child(NULL);
    }
    CHECK_EQ(weft_pool_spawn(busy_pool, &fiber, exit_in_child, NULL,
                             &(struct weft_fiber_opts){.stack_bytes = 1 << 18}),
             0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    busy_close();
}

/* --- signals ---------------------------------------------------------------------------------- */

static weft_signal_set *old_set;

static weft_signal_set *open_set(void)
{
    weft_signal_set *set;
    CHECK_EQ(weft_signal_open(&set, (const int[]){SIGUSR1}, 1,
                              &(struct weft_signal_opts){.name = "usr"}),
             0);
    return set;
}

static void has_no_sets(void *arg)
{
    struct sigaction now;
    (void)arg;
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
    weft_signal_close(old_set);
    weft_signal_set *set = open_set(); /* and the child may have its own sets */
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(weft_signal_wait(set, NULL, WEFT_FOREVER), 0);
    weft_signal_close(set);
}

static void waits_on_old(void *arg)
{
    (void)arg;
    weft_signal_wait(old_set, NULL, WEFT_FOREVER);
}

TEST(forked_child_has_no_signal_sets_and_parent_sees_no_signal)
{
    char err[CHECK_ERR];
    sigset_t usr;
    sigemptyset(&usr);
    sigaddset(&usr, SIGUSR1);
    if (WEFT__TSAN) { /* TSan delays signals; see test/process/signal.c */
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr, NULL), 0);
    }
    old_set = open_set();
    int status = check_child(has_no_sets, NULL, err, sizeof err);
    if (status) {
        fprintf(stderr, "%s", err);
    }
    CHECK_EQ(status, 0);
    expect_abort(waits_on_old, "signal set usr was created before fork() and is used in the child");
    CHECK_EQ(weft_signal_wait(old_set, NULL, 0), -ETIMEDOUT);
    weft_signal_close(old_set);
}

static void dumps_no_more(void *arg)
{
    struct sigaction now;
    (void)arg;
    CHECK_EQ(sigaction(SIGUSR2, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
    weft_dump_on_signal_stop(); /* its thread does not exist in the child: nothing to wait for */
    CHECK_EQ(weft_dump_on_signal(SIGUSR2, STDERR_FILENO, NULL), 0);
    weft_dump_on_signal_stop();
}

TEST(dump_on_signal_is_off_in_forked_child)
{
    char err[CHECK_ERR];
    CHECK_EQ(weft_dump_on_signal(SIGUSR2, STDERR_FILENO, NULL), 0);
    int status = check_child(dumps_no_more, NULL, err, sizeof err);
    if (status) {
        fprintf(stderr, "%s", err);
    }
    CHECK_EQ(status, 0);
    weft_dump_on_signal_stop();
}
