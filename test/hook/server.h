/* For tests with a real server: started in a folder of its own, on a Unix socket or a port of the
 * kernel's choice, and ended with the test whatever becomes of it. */
#ifndef WEFT_TEST_HOOK_SERVER_H
#define WEFT_TEST_HOOK_SERVER_H

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "hook/hooked.h"

#define SERVER_TRIES 6000  /* of 50 ms, for it to start */
#define SERVER_ATTEMPTS 50 /* at what is to be quick: a busy machine may make one of them late */

struct server {
    pid_t pid;
    char folder[64];
    const struct passwd *user; /* who it runs as, if not as we do */
};

/* Servers that refuse to run as root run as `user`. */
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

/* The log goes to stderr: something went wrong. */
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

/* n fibers of one worker run fn; how long it took. */
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
    CHECK_EQ(weft_run(server_crowd_main, &crowd, NULL, &opts), 0);
    return crowd.seconds;
}

/* Within so many seconds. How long it took. */
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
