/* Topics are borrowed for ever: a topic in memory that may be freed stops the program with a
 * message that says so. Each misuse runs in a child of a process that has not used Weft yet. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "check.h"

static weft_host *host;
static weft_pid pid;

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CALL) {
            weft_actor_reply(events[i].tag, 0, NULL);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].topic && strcmp(events[i].topic, "out send") == 0) {
            char topic[] = "made up";
            return weft_out_send(out, 1, pid, topic, 0, NULL, WEFT_BY_POLICY);
        } else if (events[i].topic && strcmp(events[i].topic, "out call") == 0) {
            char topic[] = "made up";
            return weft_out_call(out, 1, pid, topic, NULL, WEFT_FOREVER);
        }
    }
    return 0;
}

static const struct weft_actor_kind kind = {.name = "hears", .step = step};

static void begin(void)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
}

static void finish(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- misuse -------------------------------------------------------------------------------- */

static void send_local(void *arg)
{
    char topic[] = "made up";
    begin();
    weft_actor_send(*(weft_pid *)arg, topic, 0, NULL, WEFT_BY_POLICY);
}
static void send_heap(void *arg)
{
    begin();
    weft_actor_send(*(weft_pid *)arg, strdup("made up"), 0, NULL, WEFT_BY_POLICY);
}
static void send_until(void *arg)
{
    char topic[] = "made up";
    begin();
    weft_actor_send(*(weft_pid *)arg, topic, 0, NULL, 0);
}
static void call(void *arg)
{
    char topic[] = "made up";
    begin();
    weft_actor_call(*(weft_pid *)arg, NULL, topic, NULL, 0);
}
static void send_later(void *arg)
{
    char topic[] = "made up";
    begin();
    weft_actor_send_at(*(weft_pid *)arg, NULL, topic, 0, NULL, weft_after(0));
}
static void publish(void *arg)
{
    char topic[] = "made up";
    begin();
    CHECK_EQ(weft_actor_group_join(host, "all", *(weft_pid *)arg), 0);
    weft_actor_group_publish(host, "all", topic, 0, NULL, WEFT_BY_POLICY);
}
static void send_in_step(void *arg)
{
    begin();
    weft_actor_send(*(weft_pid *)arg, "out send", 0, NULL, WEFT_BY_POLICY);
    weft_actor_join(*(weft_pid *)arg, NULL, WEFT_FOREVER);
}
static void call_in_step(void *arg)
{
    begin();
    weft_actor_send(*(weft_pid *)arg, "out call", 0, NULL, WEFT_BY_POLICY);
    weft_actor_join(*(weft_pid *)arg, NULL, WEFT_FOREVER);
}

TEST(topic_in_transient_memory_aborts_with_message)
{
    static void (*const misuses[])(void *) = {send_local, send_heap, send_until,   call,
                                              send_later, publish,   send_in_step, call_in_step};
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        char err[CHECK_ERR];
        int status = check_child(misuses[i], &pid, err, sizeof err);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK(strstr(err, "weft: the topic \"made up\" is not in static memory"));
        CHECK(strstr(err, "weft_topic_intern(text)"));
    }
}

TEST(topic_in_permanent_memory_is_accepted)
{
    static char mine[] = "static";
    const char *made = weft_topic_intern("made up");
    char local[] = "made up";
    begin();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_actor_send(pid, "literal", 0, NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pid, mine, 0, NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pid, NULL, 0, NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pid, made, 0, NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pid, weft_topic_intern(local), 0, NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pid, strerror(EINVAL), 0, NULL, WEFT_BY_POLICY),
                 0); /* memory of the C library */
        CHECK_EQ(weft_actor_call(pid, NULL, made, NULL, WEFT_FOREVER), 0);
    }
    finish();
}
