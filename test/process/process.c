/* not under: qemu */
#include <weft/process.h>

#include <fcntl.h>
#include <signal.h>

#include "base/thread.h"
#include "io/descriptors.h"
#include "pool/fixture.h"
#include "pool/forks.h"
#include "process/process.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static const char *const run_true[] = {"true", NULL};
static const char *const run_false[] = {"false", NULL};
static const char *const run_sleep[] = {"sleep", "1000", NULL};

static weft_process *spawn(const char *const *argv, const struct weft_process_opts *opts)
{
    weft_process *process = NULL;
    CHECK_EQ(weft_process_spawn(&process, argv, opts), 0);
    return process;
}

static struct weft_process_status status_of(const char *const *argv,
                                            const struct weft_process_opts *opts)
{
    struct weft_process_status status = {.code = -1};
    weft_process *process = spawn(argv, opts);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
    weft_process_close(process);
    return status;
}

/* The number of open descriptors while no child is watched. Every test that counts descriptors
 * calls this first. */
static int usual_fds(void)
{
    static int usual;
    usual = usual ? usual : count_descriptors();
    return usual;
}

/* The watcher ends by itself shortly after its last watch. */
static void await_fds(int n)
{
    while (count_descriptors() != n) {
        usleep(1000);
    }
}

static int children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* --- how a child ends ---------------------------------------------------------------- */

static void *exit_codes(void *arg)
{
    struct weft_process_status status = status_of(run_true, NULL);
    CHECK(status.code == 0 && status.signal == 0);
    status = status_of(run_false, NULL);
    CHECK(status.code == 1 && status.signal == 0);
    status = status_of((const char *[]){"sh", "-c", "exit 7", NULL}, NULL);
    CHECK(status.code == 7 && status.signal == 0);
    status = status_of((const char *[]){"sh", "-c", "kill -TERM $$", NULL}, NULL);
    CHECK(status.code == 0 && status.signal == SIGTERM);
    return arg;
}

TEST(process_wait_returns_exit_code_or_signal)
{
    int before = usual_fds();
    run_in_fiber(1, exit_codes, NULL);
    exit_codes(NULL); /* a plain thread */
    await_fds(before);
    CHECK(!children());
}

TEST(spawn_of_unrunnable_program_returns_error)
{
    weft_process *process;
    int before = usual_fds();
    const char *const none[] = {"/nowhere/no-such-program", NULL};
    const char *const unsearched[] = {"no-such-program-in-the-path", NULL};
    const char *const folder[] = {"/tmp", NULL};
    CHECK_EQ(setenv("PATH", "/usr/bin:/bin", 1), 0); /* an unreadable file is a different error */
    CHECK_EQ(weft_process_spawn(&process, none, NULL), -ENOENT);
    CHECK_EQ(weft_process_spawn(&process, unsearched, NULL), -ENOENT);
    CHECK_EQ(weft_process_spawn(&process, folder, NULL), -EACCES);
    CHECK_EQ(weft_process_spawn(&process, run_true,
                                &(struct weft_process_opts){.cwd = "/no/such/folder"}),
             -ENOENT);
    CHECK_EQ(weft_process_spawn(&process, run_true, &(struct weft_process_opts){.out = 9999}),
             -EBADF);
    CHECK_EQ(weft_process_spawn(&process, (const char *[]){NULL}, NULL), -EINVAL);
    weft__thread_fail_next(1);
    CHECK_EQ(weft_process_spawn(&process, run_sleep, NULL), -EAGAIN);
    weft__thread_fail_next(0);
    await_fds(before);
    CHECK(!children());
}

static void *kill_sleeper(void *arg)
{
    struct weft_process_status status;
    weft_process *process = spawn(run_sleep, &(struct weft_process_opts){.name = "sleeper"});
    CHECK(weft_process_pid(process) > 0);
    CHECK_EQ(weft_process_wait(process, &status, 0), -ETIMEDOUT);
    CHECK_EQ(weft_process_wait(process, &status, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK_EQ(weft_process_kill(process, 0), 0);
    CHECK_EQ(weft_process_kill(process, 9999), -EINVAL);
    CHECK_EQ(weft_process_kill(process, SIGKILL), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
    CHECK_EQ(status.signal, SIGKILL);
    CHECK_EQ(weft_process_kill(process, SIGKILL), -ESRCH);
    CHECK_EQ(weft_process_wait(process, &status, 0), 0); /* again, without waiting */
    CHECK_EQ(status.signal, SIGKILL);
    weft_process_close(process);
    return arg;
}

TEST(process_wait_times_out_and_child_can_be_killed)
{
    run_in_fiber(2, kill_sleeper, NULL);
    CHECK(!children());
}

/* --- several waiters --------------------------------------------------------------------- */

static void *wait_for_kill(void *arg)
{
    struct weft_process_status status;
    int err = weft_process_wait(arg, &status, WEFT_FOREVER);
    CHECK(err || status.signal == SIGTERM);
    return (void *)(intptr_t)err;
}

TEST(every_process_waiter_gets_same_status)
{
    weft_process *process = spawn(run_sleep, NULL);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    weft_fiber fibers[4];
    void *result;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], wait_for_kill, process, NULL), 0);
    }
    pthread_t thread = thread_open(wait_for_kill, process);
    for (int i = 0; i < 4; i++) {
        await_state(fibers[i], WEFT_FIBER_WAITING);
    }
    CHECK_EQ(weft_process_kill(process, SIGTERM), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 0);
    }
    CHECK_EQ((intptr_t)thread_close(thread), 0);
    pool_close(pool);
    weft_process_close(process);
}

static void *end_wait(void *arg)
{
    weft_process *process = spawn(run_sleep, NULL);
    weft_fiber fiber;
    void *result;
    for (int way = 0; way < 3; way++) {
        static const int expected[] = {-ECANCELED, -EINTR, -EPIPE};
        CHECK_EQ(weft_spawn(&fiber, wait_for_kill, process, NULL), 0);
        await_state(fiber, WEFT_FIBER_WAITING);
        if (way == 0) {
            CHECK_EQ(weft_cancel(fiber), 0);
        } else if (way == 1) {
            CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        } else {
            CHECK_EQ(weft_process_kill(process, SIGSTOP), 0); /* so that it does not end first */
            weft_process_close(process);
        }
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, expected[way]);
    }
    return arg;
}

TEST(cancel_interrupt_and_close_end_process_wait)
{
    int before = usual_fds();
    run_in_fiber(1, end_wait, NULL);
    CHECK(count_descriptors() > before); /* the child lives, and is watched */
    siginfo_t info;
    CHECK_EQ(waitid(P_ALL, 0, &info, WSTOPPED), 0);
    CHECK_EQ(kill(info.si_pid, SIGKILL), 0);
    await_fds(before); /* and reaped, although its handle is closed */
    CHECK(!children());
}

TEST(stackless_task_waits_for_process)
{
    struct body body, other;
    struct weft_process_status status;
    weft_process *process = spawn(run_sleep, NULL);
    body_arm(&body);
    CHECK(weft__process_arm(process, &body.node));
    body_arm(&other);
    CHECK(weft__process_arm(process, &other.node));
    CHECK(body_end(&other, WEFT__REASON_TIMEOUT));
    weft__process_finish(process, &other.node);
    CHECK_EQ(weft_process_kill(process, SIGKILL), 0);
    while (!body_told(&body)) {
        weft_yield();
    }
    weft__process_finish(process, &body.node);
    CHECK(!weft__process_arm(process, &body.node));
    CHECK_EQ(weft_process_wait(process, &status, 0), 0);
    CHECK_EQ(status.signal, SIGKILL);
    weft_process_close(process);

    process = spawn(run_sleep, NULL);
    int pid = weft_process_pid(process);
    body_arm(&body);
    CHECK(weft__process_arm(process, &body.node));
    weft_process_close(process); /* the node keeps the handle alive */
    CHECK(body_told(&body));
    CHECK_EQ(body.node.status, -EPIPE);
    weft__process_finish(process, &body.node);
    CHECK_EQ(kill(pid, SIGKILL), 0);
}

/* --- many ------------------------------------------------------------------------------------ */

static void *run_one(void *arg)
{
    struct weft_process_status status;
    weft_process *process;
    int err;
    /* Other tests on this machine may briefly use up all processes or descriptors. */
    while ((err = weft_process_spawn(&process, arg, NULL)) == -EAGAIN) {
        weft_sleep(weft_after(1 * MS));
    }
    CHECK_EQ(err, 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
    CHECK_EQ(status.code, arg == run_false);
    weft_process_close(process);
    return NULL;
}

static void *run_many(void *arg)
{
    enum { MANY = 200 };
    weft_fiber fibers[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], run_one, (void *)(uintptr_t)(i % 2 ? run_true : run_false),
                            NULL),
                 0);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

/* Starting a child may take so long that the fiber counts as a hog, and a hog report opens
 * descriptors permanently (libunwind's). */
static void run_unreported(unsigned workers, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = workers, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

TEST(two_hundred_children_leave_no_zombies_or_descriptors)
{
    int before = usual_fds();
    run_unreported(2, run_many);
    await_fds(before);
    CHECK(!children());
}

static void *forget_many(void *arg)
{
    for (int i = 0; i < 20; i++) {
        weft_process_close(spawn(run_true, NULL));
    }
    return arg;
}

TEST(child_with_closed_handle_is_reaped)
{
    int before = usual_fds();
    run_unreported(1, forget_many);
    await_fds(before);
    CHECK(!children());
}

/* --- children and signals that are not Weft's ------------------------------------------------- */

static atomic_int sigchlds;

static void on_sigchld(int signal)
{
    (void)signal;
    atomic_fetch_add(&sigchlds, 1);
}

TEST(other_children_and_sigchld_handler_are_left_alone)
{
    struct sigaction ours = {.sa_handler = on_sigchld}, before, now;
    int status;
    CHECK_EQ(sigaction(SIGCHLD, &ours, &before), 0);
    pid_t other = fork();
    if (other == 0) {
        _exit(5);
    }
    CHECK_EQ(status_of(run_true, NULL).code, 0);
    CHECK_EQ(sigaction(SIGCHLD, NULL, &now), 0);
    CHECK(now.sa_handler == on_sigchld);
    pid_t found;
    while ((found = waitpid(other, &status, 0)) < 0) {
        CHECK_EQ(errno, EINTR);
    }
    CHECK_EQ(found, other);
    CHECK_EQ(WEXITSTATUS(status), 5);
    CHECK(atomic_load(&sigchlds) > 0);
    CHECK_EQ(sigaction(SIGCHLD, &before, NULL), 0);
}

TEST(status_reaped_by_other_code_is_reported_lost)
{
    struct weft_process_status status;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    CHECK_EQ(sigaction(SIGCHLD, &ignore, &before), 0);
    weft_process *process = spawn(run_true, NULL);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), -ECHILD);
    CHECK_EQ(weft_process_kill(process, SIGTERM), -ESRCH);
    weft_process_close(process);
    CHECK_EQ(sigaction(SIGCHLD, &before, NULL), 0);
}

/* --- options ---------------------------------------------------------------------------------- */

/* What a shell writes to its descriptor 1 (and 2) under these options. */
static void output_of(const char *script, struct weft_process_opts opts, char *text, size_t size)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    opts.out = ends[1];
    CHECK_EQ(status_of((const char *[]){"sh", "-c", script, NULL}, &opts).code, 0);
    close(ends[1]);
    ssize_t n = read(ends[0], text, size - 1);
    CHECK(n >= 0);
    text[n] = 0;
    close(ends[0]);
}

TEST(child_gets_requested_directory_environment_and_fds)
{
    char text[200];
    const char *const env[] = {"WORD=weft", "PATH=/usr/bin:/bin", NULL};
    output_of("pwd", (struct weft_process_opts){.cwd = "/"}, text, sizeof text);
    CHECK_STR(text, "/\n");
    output_of("echo $WORD", (struct weft_process_opts){.env = env}, text, sizeof text);
    CHECK_STR(text, "weft\n");
    output_of("wc -c", (struct weft_process_opts){.in = WEFT_STDIO_NULL}, text, sizeof text);
    CHECK_EQ(atoi(text), 0);
    output_of("echo it >&2; echo done", (struct weft_process_opts){.err = WEFT_STDIO_NULL}, text,
              sizeof text);
    CHECK_STR(text, "done\n");
    output_of("echo $0", (struct weft_process_opts){.path = "/bin/sh"}, text, sizeof text);
    CHECK_STR(text, "sh\n");
}

/* A child's descriptors 1 and 2 are swapped: neither overwrites the other before it is
 * duplicated. */
static void swaps(void *arg)
{
    int ends[2];
    char text[20] = "";
    (void)arg;
    CHECK_EQ(pipe(ends), 0);
    int out = dup2(ends[1], 1);
    CHECK_EQ(out, 1);
    struct weft_process_opts opts = {.out = 2, .err = 1};
    CHECK_EQ(status_of((const char *[]){"sh", "-c", "echo to2 >&2", NULL}, &opts).code, 0);
    CHECK(read(ends[0], text, sizeof text) > 0);
    CHECK(strcmp(text, "to2\n") == 0);
}

TEST(standard_descriptors_can_be_swapped)
{
    char err[CHECK_ERR];
    CHECK_EQ(check_child(swaps, NULL, err, sizeof err), 0);
}

TEST(child_gets_new_group_and_session_on_request)
{
    weft_process *same = spawn(run_sleep, NULL);
    weft_process *group = spawn(run_sleep, &(struct weft_process_opts){.new_group = true});
    weft_process *session = spawn(run_sleep, &(struct weft_process_opts){.new_session = true});
    CHECK_EQ(getpgid(weft_process_pid(same)), getpgrp());
    CHECK_EQ(getpgid(weft_process_pid(group)), weft_process_pid(group));
    CHECK_EQ(getsid(weft_process_pid(group)), getsid(0));
    CHECK_EQ(getsid(weft_process_pid(session)), weft_process_pid(session));
    weft_process *all[] = {same, group, session};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_process_kill(all[i], SIGKILL), 0);
        CHECK_EQ(weft_process_wait(all[i], NULL, WEFT_FOREVER), 0);
        weft_process_close(all[i]);
    }
}

/* Parses the kernel's text; signals 32 and 33 are internal to the C library. */
static unsigned long long ignored_in(const char *text)
{
    const char *at = strstr(text, "SigIgn:");
    CHECK(at);
    return strtoull(at + 7, NULL, 16) & ~(3ull << 31);
}

TEST(child_ignores_and_blocks_no_signal_unless_requested)
{
    char text[200];
    sigset_t some, before;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    const char *script = "grep -E '^Sig(Blk|Ign):' /proc/self/status | tr -d '\\n\\t'";
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    /* A shell that runs this program in the background may have it ignore SIGINT and others. */
    output_of(script, (struct weft_process_opts){.keep_signals = true}, text, sizeof text);
    unsigned long long usual = ignored_in(text);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &some, &before), 0);
    CHECK_EQ(sigaction(SIGPIPE, &ignore, &old), 0);
    output_of(script, (struct weft_process_opts){0}, text, sizeof text);
    CHECK(strstr(text, "SigBlk:0000000000000000"));
    CHECK_EQ(ignored_in(text), 0);
    output_of(script, (struct weft_process_opts){.keep_signals = true}, text, sizeof text);
    CHECK(strstr(text, "SigBlk:0000000000000200"));
    CHECK_EQ(ignored_in(text), usual | 1ull << (SIGPIPE - 1));
    CHECK_EQ(sigaction(SIGPIPE, &old, NULL), 0);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}
