/* A fault report names the actor that faulted and the event that it was handling. The process then
 * ends as it would without Weft. */
/* not under: asan tsan qemu */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "check.h"

enum { HARM = WEFT_COMMAND_USER };
static char *nowhere;

static int do_harm(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(events[i].topic, "write") == 0) {
            *(volatile char *)nowhere = 1;
        } else if (strcmp(events[i].topic, "assert") == 0) {
            abort(); /* as assert does */
        } else if (strcmp(events[i].topic, "handler") == 0) {
            weft_out_command(out, HARM, 0, NULL);
        } else {
            weft_out_exit(out, 1, NULL); /* a bug in the caller */
        }
    }
    return 0;
}

static int do_harm_in_a_fiber(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    while (weft_actor_receive(&event, WEFT_FOREVER) == 0) {
        if (strcmp(event->topic, "write in a fiber") == 0) {
            *(volatile char *)nowhere = 1;
        }
        abort();
    }
    return 0;
}

static int handle(const struct weft_command *command, void *arg)
{
    (void)command, (void)arg;
    abort();
}

static void run(void *arg)
{
    static const struct weft_actor_kind in_steps = {.name = "clumsy", .step = do_harm};
    static const struct weft_actor_kind in_a_fiber = {.name = "clumsy", .run = do_harm_in_a_fiber};
    const char *topic = arg;
    weft_host *host;
    weft_pid pid;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_handle(host, HARM, handle, NULL), 0);
    if (strcmp(topic, "outside") == 0) {
        abort();
    }
    const struct weft_actor_kind *kind = strstr(topic, "fiber") ? &in_a_fiber : &in_steps;
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    CHECK_EQ(weft_actor_send(pid, topic, 0, NULL, WEFT_BY_POLICY), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
}

static void expect(const char *topic, int signal, const char *report)
{
    char err[CHECK_ERR];
    int status = check_child(run, (void *)(uintptr_t)topic, err, sizeof err);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    if (report ? !strstr(err, report) : strstr(err, "weft: ") != NULL) {
        check_fail(__FILE__, __LINE__, "it says:\n%s", err);
    }
    if (report) {
        CHECK(strstr(err, strstr(topic, "fiber") ? " in fiber actor <0.1."
                                                 : " in a step of actor <0.1."));
        CHECK(strstr(err, "> clumsy, last message "));
        CHECK(strstr(err, topic));
    }
}

TEST(segfault_in_step_names_actor)
{
    expect("write", SIGSEGV, "weft: bad access in a step of actor ");
}

TEST(abort_in_step_names_actor)
{
    expect("assert", SIGABRT, "weft: abort in a step of actor ");
}

TEST(abort_in_command_handler_names_requesting_actor)
{
    expect("handler", SIGABRT, "weft: abort in a step of actor ");
}

TEST(api_misuse_in_step_names_actor)
{
    expect("bug", SIGABRT, "must be 0 or a negative errno");
}

TEST(segfault_in_fiber_actor_names_actor)
{
    expect("write in a fiber", SIGSEGV, "weft: bad access in fiber actor ");
}

TEST(abort_in_fiber_actor_names_actor)
{
    expect("abort in a fiber", SIGABRT, "weft: abort in fiber actor ");
}

TEST(abort_outside_actor_prints_no_report)
{
    expect("outside", SIGABRT, NULL);
}
