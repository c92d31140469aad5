/* One-time initialization by the first call races with a fork in another thread: in the child the
 * initialization is complete, or not begun. */
/* not under: qemu asan tsan */
/* (For the reasons given in test/pool/fork.c.) */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include <weft/blocking.h>
#include <weft/process.h>

#include "pool/fixture.h"
#include "pool/forks.h"
#include "task/fork.h"

/* --- a fork waits ---------------------------------------------------------------------- */

static struct weft__fork_once once;
static atomic_int begun, ended, forked, main_tid;

/* The kernel's state letter for the thread; it is R until the thread sleeps. */
static char state_of(int tid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    CHECK(name_end != NULL);
    return name_end[2];
}

/* Runs until the forking thread sleeps, which it does until this function returns, or has
 * forked. */
static void takes_long(void)
{
    atomic_store(&begun, 1);
    while (!atomic_load(&forked) && state_of(atomic_load(&main_tid)) != 'S') {
        sched_yield();
    }
    atomic_fetch_add(&ended, 1);
}

static void *does_it_once(void *arg)
{
    weft__fork_once(&once, takes_long);
    return arg;
}

TEST(fork_waits_for_running_once_initialisation)
{
    int status;
    atomic_store(&main_tid, (int)syscall(SYS_gettid));
    pthread_t thread = thread_open(does_it_once, NULL);
    while (!atomic_load(&begun)) { /* spins: the thread must not look asleep yet */
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(300);                         /* in case of a hang */
        weft__fork_once(&once, takes_long); /* does not run again */
        _exit(atomic_load(&ended) == 1 ? 0 : 1);
    }
    atomic_store(&forked, 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    thread_close(thread);
    CHECK_EQ(atomic_load(&ended), 1);
}

/* --- all first calls ------------------------------------------------------------------------ */

static void *nothing(void *arg)
{
    return arg;
}

static void *calls_for_the_first_time(void *arg)
{
    weft_signal_set *set;
    const int signals[] = {SIGUSR2};
    CHECK(weft_blocking_default() != NULL);
    CHECK_EQ(weft_signal_open(&set, signals, 1, NULL), 0);
    weft_signal_close(set);
    CHECK_EQ(weft_dump_on_signal(SIGUSR1, STDERR_FILENO, NULL), 0);
    CHECK_EQ(weft_run(NULL, nothing, NULL, NULL, WEFT_FOREVER), 0);
    weft_dump_on_signal_stop();
    return arg;
}

/* Kills the child if it hangs. */
static pid_t child_in_time(void (*fn)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(300);
        fn();
        _exit(0);
    }
    return pid;
}

static void ends_well(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

static void calls_and_forks(void)
{
    calls_for_the_first_time(NULL);
    ends_well(child_in_time((void (*)(void))weft_dump_on_signal_stop)); /* hooks run again */
}

static long round_number;

static void forks_beside_first_calls(void)
{
    pthread_t thread = thread_open(calls_for_the_first_time, NULL);
    for (long i = round_number % 40 * 50; i > 0; i--) {
        atomic_store(&begun, (int)i); /* a little later each time */
    }
    pid_t pid = child_in_time(calls_and_forks);
    thread_close(thread);
    ends_well(pid);
}

TEST(fork_during_first_calls_leaves_child_usable)
{
    for (round_number = check_scale(120); round_number > 0; round_number--) {
        ends_well(child_in_time(forks_beside_first_calls));
    }
}
