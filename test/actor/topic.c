/* labels: valgrind */
#include <errno.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

TEST(topic_patterns_match)
{
    static const struct {
        const char *pattern, *topic;
        bool match;
    } cases[] = {
        {"", "", true},
        {"", NULL, true},
        {"*", NULL, true},
        {"*", "anything", true},
        {"a", "a", true},
        {"a", "b", false},
        {"a", "aa", false},
        {"a?", "ab", true},
        {"a?", "a", false},
        {"order.*", "order.", true},
        {"order.*", "order.new", true},
        {"order.*", "order", false},
        {"*.new", "order.new", true},
        {"*.new", "order.new.", false},
        {"a*b*c", "aXbXbXc", true},
        {"a*b*c", "aXbXbX", false},
        {"**", "x", true},
        {"a**", "a", true},
        {"*aab", "aaaaaab", true},
        {"*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        {"?*", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ(weft_topic_match(cases[i].pattern, cases[i].topic), cases[i].match);
    }
}

/* One character per call, in order. */
static char seen[64];
static atomic_int count;

static int note(char what)
{
    seen[atomic_load(&count)] = what;
    atomic_fetch_add(&count, 1);
    return 0;
}

static int on_order(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    (void)self, (void)out;
    return event->tag == 99 ? -EDOM : note('o');
}

static int on_first(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    (void)self, (void)out, (void)event;
    return note('f');
}

static int on_event(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    (void)self;
    CHECK_EQ(event->kind, WEFT_EVENT_CANCEL);
    weft_out_done(out, NULL);
    return note('e');
}

static int on_other(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    (void)self, (void)out;
    note('i');
    return event->kind == WEFT_EVENT_CALL ? weft_actor_reply(event->tag, 0, NULL) : 0;
}

static const struct weft_topic_handler topics[] = {
    {"order.first", on_first}, {"order.*", on_order}, {"@events", on_event}, {NULL, on_other}};
static const struct weft_topic_handler no_inbox[] = {{"@*", on_event}, {NULL, NULL}};

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    weft_out_idle(out);
    return weft_topic_dispatch(self, topics, events, n, out);
}

static int step_no_inbox(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    weft_out_idle(out);
    return weft_topic_dispatch(self, no_inbox, events, n, out);
}

TEST(topics_dispatch_to_handlers_else_to_inbox)
{
    static const struct weft_actor_kind kind = {.name = "shop", .step = step};
    weft_host *host;
    weft_pid pid;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    CHECK_EQ(weft_actor_send(pid, "order.first", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send(pid, "order.new", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send(pid, "weather", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send(pid, NULL, 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, NULL, "ask", NULL, WEFT_FOREVER), 0);
    CHECK_STR(seen, "foiii");
    CHECK_EQ(weft_actor_send(pid, "order.bad", 99, NULL, WEFT_BY_POLICY), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == -EDOM || err == -ESRCH);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_STR(seen, "foiiie");
    weft_host_destroy(host);
}

TEST(unhandled_call_without_inbox_returns_enosys)
{
    static const struct weft_actor_kind kind = {.name = "deaf", .step = step_no_inbox};
    weft_host *host;
    weft_pid pid;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    CHECK_EQ(weft_actor_send(pid, "weather", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, NULL, "ask", weft_buf_copy("x", 1), WEFT_FOREVER), -ENOSYS);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
