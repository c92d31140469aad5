/* For tests with a real server: it runs in a temporary folder, on a Unix socket or on a port that
 * the kernel chooses, and ends with the test, whatever the test's outcome. */
#ifndef WEFT_TEST_HOOK_SERVER_H
#define WEFT_TEST_HOOK_SERVER_H

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "hook/hooked.h"

#define SERVER_TRIES 6000  /* of 50 ms each, for its start */
#define SERVER_ATTEMPTS 50 /* for a time limit: a busy machine may delay one of them */

struct server {
    pid_t pid;
    char folder[64];
    const struct passwd *user; /* the user it runs as, if not the test's */
};

/* A server that refuses to run as root runs as `user`. */
__attribute__((unused)) static void server_init(struct server *server, const char *user)
{
    *server = (struct server){.folder = "/tmp/weft-server-XXXXXX"};
    CHECK(mkdtemp(server->folder) != NULL);
    if (user && geteuid() == 0) {
        server->user = getpwnam(user);
        CHECK(server->user != NULL);
        CHECK_EQ(chown(server->folder, server->user->pw_uid, server->user->pw_gid), 0);
    }
}

__attribute__((unused)) static pid_t server_run(struct server *server, const char *const *argv)
{
    pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) {
        return pid;
    }
    bool right =
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && chdir(server->folder) == 0;
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0666), none = open("/dev/null", O_RDONLY);
    fchmod(log, 0666);
    dup2(none, 0);
    dup2(log, 1);
    dup2(log, 2);
    if (right && server->user) {
        right = setgroups(0, NULL) == 0 && setgid(server->user->pw_gid) == 0 &&
                setuid(server->user->pw_uid) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    }
    unsetenv("LD_PRELOAD");
    if (right) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    }
    _exit(127);
}

__attribute__((unused)) static void server_remove(struct server *server)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", server->folder);
    CHECK_EQ(system(command), 0);
}

/* Copies the log to stderr after a failure. */
__attribute__((unused, noreturn)) static void server_fail(struct server *server, const char *what)
{
    char command[128];
    snprintf(command, sizeof command, "cat %s/log >&2", server->folder);
    if (system(command) != 0) {
        fprintf(stderr, "no log\n");
    }
    server_remove(server);
    check_fail(__FILE__, __LINE__, "%s", what);
}

__attribute__((unused)) static void server_stop(struct server *server, int number)
{
    int status;
    CHECK_EQ(kill(server->pid, number), 0);
    CHECK_EQ(waitpid(server->pid, &status, 0), server->pid);
    server_remove(server);
}

/* Runs fn in n fibers of one worker; returns the elapsed time. */
struct server_crowd {
    weft_fn fn;
    int count;
    double seconds;
};

__attribute__((unused)) static void *server_crowd_main(void *arg)
{
    struct server_crowd *crowd = arg;
    weft_fiber *fibers = calloc((size_t)crowd->count, sizeof *fibers);
    int64_t start = weft_now();
    for (int i = 0; i < crowd->count; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], crowd->fn, (void *)(intptr_t)i,
                            &(struct weft_fiber_opts){.hooked = true}),
                 0);
    }
    for (int i = 0; i < crowd->count; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    crowd->seconds = hooked_since(start);
    free(fibers);
    return NULL;
}

__attribute__((unused)) static double server_crowd_on(enum weft_driver driver, int count,
                                                      weft_fn fn)
{
    struct server_crowd crowd = {.fn = fn, .count = count};
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, server_crowd_main, &crowd, &opts, WEFT_FOREVER), 0);
    return crowd.seconds;
}

/* The same, with a limit in seconds. Returns the elapsed time. */
__attribute__((unused)) static double server_crowd_within(double limit, enum weft_driver driver,
                                                          int count, weft_fn fn)
{
    double seconds = limit;
    for (int i = 0; i < SERVER_ATTEMPTS && seconds >= limit; i++) {
        seconds = server_crowd_on(driver, count, fn);
    }
    CHECK(seconds < limit);
    return seconds;
}

#endif
