/* labels: valgrind */
/* Supervisors with dynamic children. */
#include "base/alloc.h"
#include "supervisor/children.h"

static weft_buf *named(int i)
{
    char name[8];
    snprintf(name, sizeof name, "%d", i);
    return weft_buf_copy(name, strlen(name) + 1);
}

TEST(dynamic_children_are_added_and_removed)
{
    static const struct weft_child_spec pattern = {.kind = &kind, .restart = WEFT_CHILD_TRANSIENT};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){
                                   .strategy = WEFT_DYNAMIC, .children = &pattern, .count = 1});
    weft_pid children[20];
    CHECK_EQ(weft_supervisor_children(pid, NULL, 0), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_supervisor_add(pid, &children[i], named(i), WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_supervisor_children(pid, NULL, 0), 20);
    forget();
    CHECK_EQ(weft_actor_send(children[7], "crash", 0, NULL, WEFT_BY_POLICY), 0);
    await("-7 +7"); /* with separate input */
    CHECK_EQ(weft_actor_send(children[8], "finish", 0, NULL, WEFT_BY_POLICY), 0);
    while (weft_supervisor_children(pid, NULL, 0) != 19) {
        sched_yield();
    }
    forget();
    CHECK_EQ(weft_supervisor_remove(pid, children[9], WEFT_FOREVER), 0);
    CHECK_STR(heard(), "-9"); /* waits for the child's end */
    CHECK_EQ(weft_supervisor_remove(pid, children[9], WEFT_FOREVER), -ENOENT);
    CHECK_EQ(weft_supervisor_children(pid, NULL, 0), 18);
    atomic_store(&refusals, 1);
    weft_pid none;
    CHECK_EQ(weft_supervisor_add(pid, &none, named(99), WEFT_FOREVER), -EADDRINUSE);
    CHECK_EQ(weft_supervisor_children(pid, NULL, 0), 18);
    CHECK_EQ(stop(pid), 0);
    CHECK_EQ(weft_supervisor_add(pid, &none, named(100), WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_supervisor_remove(pid, children[0], WEFT_FOREVER), -ESRCH);
    end_host(host);
}

static int say_yes(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else {
            weft_buf *answer = events[i].buf ? weft_buf_copy("yes", 3) : NULL;
            CHECK_EQ(weft_actor_reply(events[i].tag, 0, answer), 0);
        }
    }
    return 0;
}

TEST(add_child_to_plain_actor_returns_enotsup)
{
    static const struct weft_actor_kind yes = {.name = "yes", .step = say_yes};
    weft_host *host = make_host();
    weft_pid pid, child;
    CHECK_EQ(weft_actor_spawn(host, &pid, &yes, NULL, NULL), 0);
    CHECK_EQ(weft_supervisor_add(pid, &child, NULL, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_supervisor_add(pid, &child, named(1), WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_supervisor_children(pid, NULL, 0), -ESRCH);
    end_host(host);
}

static weft_buf *drained; /* each child's input is the previous child's PID */
static atomic_bool thirsty;

/* After this, not even a PID can be allocated. */
static int drain(weft_actor *self, const char *method, const weft_buf *input)
{
    weft_buf *data[sizeof(weft_pid) / sizeof(weft_buf *)], *buf;
    (void)self, (void)method, (void)input;
    if (!atomic_load(&thirsty)) {
        return 0;
    }
    weft__alloc_fail_after(1, true);
    for (data[0] = drained; (buf = weft_buf_copy(data, sizeof data)); data[0] = drained) {
        drained = buf;
    }
    return 0;
}

static void give_back(void)
{
    while (drained) {
        weft_buf *next;
        memcpy(&next, drained->data, sizeof(weft_buf *));
        weft_buf_free(drained);
        drained = next;
    }
}

TEST(dynamic_child_is_not_started_if_reply_lacks_memory)
{
    static const struct weft_actor_kind drainer = {
        .name = "drainer", .state_bytes = sizeof(struct child), .init = drain, .step = step};
    static const struct weft_child_spec pattern = {.kind = &drainer};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.strategy = WEFT_DYNAMIC,
                                                              .children = &pattern,
                                                              .count = 1}),
             child;
    int there = 0;
    for (int i = 0; i < 20; i++) {
        atomic_store(&thirsty, i % 2 == 1);
        int err = weft_supervisor_add(pid, &child, NULL, WEFT_FOREVER);
        weft__alloc_fail_after(0, false);
        give_back();
        CHECK(err == 0 || err == -ENOMEM);
        there += err == 0;
        CHECK_EQ(weft_supervisor_children(pid, NULL, 0), there);
    }
    CHECK(there >= 10);
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

TEST(unanswered_supervisor_request_times_out)
{
    static const struct weft_child_spec patient[] = {CHILD("a", .stop_ns = 3600000 * MS)};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = patient, .count = 1}), a,
             none;
    CHECK_EQ(weft_supervisor_add(pid, &none, NULL, WEFT_FOREVER), -ENOTSUP);
    a = look(pid, "a").pid;
    tell(pid, "a", "stubborn");
    await("+a !a");
    CHECK_EQ(weft_supervisor_remove(pid, a, weft_after(5 * MS)), -ETIMEDOUT);
    await_state(pid, "a", WEFT_CHILD_STOPPING);
    CHECK_EQ(weft_actor_kill(a), 0);
    await_state(pid, "a", WEFT_CHILD_STOPPED);
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}
