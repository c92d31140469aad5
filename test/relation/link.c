/* labels: valgrind */
#include "host/puppet.h"

static struct puppet a, b, c;
static weft_host *the_host;

static weft_host *pair(void)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(puppet_do(&a, links, &b.pid), 0);
    return host;
}

TEST(abnormal_exit_ends_linked_actor)
{
    weft_host *host = pair();
    puppet_do(&a, fails, NULL);
    puppet_await_close(&b);
    CHECK_EQ(b.closed, 1);
    puppet_host_end(host);
    CHECK_EQ(a.closed, 1);
    CHECK_EQ(b.count, 0);
}

TEST(link_propagates_exit_in_both_directions)
{
    weft_host *host = pair();
    puppet_exit(&b, NULL);
    puppet_await_close(&a);
    puppet_host_end(host);
    CHECK_EQ(a.closed, 1);
}

TEST(trapping_actor_gets_exit_event_with_reason)
{
    weft_host *host = pair();
    puppet_trap(&a);
    weft_pid gone = b.pid;
    puppet_exit(&b, "disk on fire");
    struct seen s = puppet_await(&a, 1);
    CHECK_EQ(s.kind, WEFT_EVENT_EXIT);
    CHECK_EQ(s.error, -EIO);
    CHECK_EQ(s.tag, 1); /* the actor has ended */
    CHECK(weft_pid_equal(s.from, gone));
    CHECK_STR(s.text, "disk on fire");
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 1);
    puppet_host_end(host);
    CHECK_EQ(a.closed, 1);
}

TEST(normal_exit_is_delivered_to_trapping_links_only)
{
    weft_host *host = pair();
    puppet_start(host, &c);
    CHECK_EQ(puppet_do(&c, links, &b.pid), 0);
    puppet_trap(&c);
    puppet_do(&b, finishes, NULL);
    struct seen s = puppet_await(&c, 1);
    CHECK_EQ(s.kind, WEFT_EVENT_EXIT);
    CHECK_EQ(s.error, 0);
    puppet_settle(&a);
    puppet_settle(&a); /* still alive, saw nothing */
    CHECK_EQ(puppet_count(&a), 0);
    puppet_host_end(host);
}

TEST(duplicate_link_sends_one_exit_event)
{
    weft_host *host = pair();
    puppet_trap(&a);
    puppet_trap(&b);
    CHECK_EQ(puppet_do(&a, links, &b.pid), 0);
    CHECK_EQ(puppet_do(&b, links, &a.pid), 0);
    puppet_do(&b, finishes, NULL);
    puppet_await(&a, 1);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 1);
    puppet_host_end(host);
}

TEST(unlink_from_either_side_stops_exit_propagation)
{
    weft_host *host = pair();
    puppet_trap(&a);
    CHECK_EQ(puppet_do(&b, unlinks, &a.pid), 0);
    CHECK_EQ(puppet_do(&b, unlinks, &a.pid), 0); /* no such link: not an error */
    puppet_do(&b, fails, NULL);
    puppet_await_end(b.pid);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 0);
    puppet_host_end(host);
}

/* The exit of b is in flight when a unlinks, in the very step that makes b end. */
static int unlinks_too_late(weft_actor *self, weft_out *out, void *arg)
{
    (void)out, (void)arg;
    CHECK_EQ(weft_actor_kill(b.pid), 0);
    puppet_spin_until_ended(the_host, 1);
    return weft_actor_unlink(self, b.pid);
}

TEST(unlink_discards_exit_event_in_flight)
{
    weft_host *host = pair();
    the_host = host;
    CHECK_EQ(puppet_do(&a, unlinks_too_late, NULL), 0);
    puppet_settle(&a);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 0);
    puppet_host_end(host);
}

/* An actor in a slot whose previous actor has ended: its link is its own, and the exit signal of
 * the previous actor does not concern it. */
static weft_event never;

static int wait_for_never(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    return weft_event_wait(&never, WEFT_FOREVER);
}

static int unlink_the_dead(weft_actor *self, weft_buf **result)
{
    static const struct weft_actor_kind idle = {.name = "idle", .run = wait_for_never};
    weft_host *host = weft_actor_host(self);
    const struct weft_actor_event *event;
    weft_pid first, next;
    (void)result;
    CHECK_EQ(weft_actor_spawn(host, &first, &idle, NULL, NULL), 0);
    CHECK_EQ(weft_actor_link(self, first), 0);
    CHECK_EQ(weft_actor_kill(first), 0);
    CHECK(weft_actor_join(first, NULL, WEFT_FOREVER) != -ETIMEDOUT);
    for (int i = 0; i == 0 || (uint32_t)next.id != (uint32_t)first.id; i++) {
        CHECK(i < 1000);
        CHECK_EQ(weft_actor_spawn(host, &next, &idle, NULL, NULL), 0);
    }
    CHECK_EQ(weft_actor_link(self, next), 0);
    CHECK_EQ(weft_actor_unlink(self, first), 0);
    CHECK_EQ(weft_actor_kill(next), 0);
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
    CHECK_EQ(event->kind, WEFT_EVENT_EXIT);
    CHECK(weft_pid_equal(event->from, next));
    CHECK_EQ(weft_actor_receive(&event, weft_after(1000000)), -ETIMEDOUT);
    return 0;
}

TEST(unlink_of_exited_actor_spares_slot_reuser)
{
    static const struct weft_actor_kind unlinks = {
        .name = "unlinks", .run = unlink_the_dead, .trap = true};
    weft_host *host;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    weft_event_init(&never, NULL);
    CHECK_EQ(weft_actor_exec(host, NULL, &unlinks, NULL, NULL, WEFT_FOREVER), 0);
    puppet_host_end(host);
}

TEST(link_to_self_dead_or_remote_is_refused)
{
    weft_host *host = pair();
    CHECK_EQ(puppet_do(&a, links, &a.pid), -EINVAL);
    puppet_do(&b, unlinks, &a.pid);
    puppet_do(&b, finishes, NULL);
    puppet_await_end(b.pid);
    CHECK_EQ(puppet_do(&a, links, &b.pid), -ESRCH);
    weft_pid nobody = {.host = 1, .id = (uint64_t)5 << 32 | 0x0fffffff};
    CHECK_EQ(puppet_do(&a, links, &nobody), -ESRCH);
    CHECK_EQ(puppet_do(&a, unlinks, &nobody), 0);
    nobody.node = 9;
    CHECK_EQ(puppet_do(&a, links, &nobody), -EREMOTE);
    CHECK_EQ(puppet_do(&a, unlinks, &nobody), 0);
    puppet_host_end(host);
}

TEST(exit_signal_to_remote_pid_returns_eremote)
{
    weft_host *host = pair();
    weft_pid far = a.pid;
    far.node = 9;
    CHECK_EQ(weft_actor_exit(far, -EIO, weft_buf_copy("x", 1)), -EREMOTE);
    CHECK_EQ(weft_actor_exit(far, 1, weft_buf_copy("x", 1)), -EINVAL);
    puppet_settle(&a); /* still alive */
    puppet_host_end(host);
}

/* --- chains and stars ------------------------------------------------------------------------- */

enum { MANY = 200 };
static struct puppet many[MANY];

TEST(exit_propagates_along_chain_until_trap)
{
    weft_host *host = puppet_host();
    for (int i = 0; i < MANY; i++) {
        puppet_start(host, &many[i]);
        if (i > 0) {
            CHECK_EQ(puppet_do(&many[i], links, &many[i - 1].pid), 0);
        }
    }
    puppet_trap(&many[MANY / 2]); /* propagation stops here, from both sides */
    puppet_exit(&many[0], "first");
    struct seen s = puppet_await(&many[MANY / 2], 1);
    CHECK_EQ(s.error, -EIO);
    CHECK_STR(s.text, "first"); /* the reason is propagated */
    CHECK(weft_pid_equal(s.from, many[MANY / 2 - 1].pid));
    puppet_exit(&many[MANY - 1], "last");
    CHECK_STR(puppet_await(&many[MANY / 2], 2).text, "last");
    puppet_host_end(host);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(many[i].closed, 1);
    }
}

TEST(simultaneous_exits_deliver_one_event_each)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_trap(&a);
    for (int i = 0; i < 60; i++) {
        puppet_start(host, &many[i]);
        CHECK_EQ(puppet_do(&many[i], links, &a.pid), 0);
        if (i > 0) {
            CHECK_EQ(puppet_do(&many[i], links, &many[i - 1].pid), 0);
        }
    }
    for (int i = 0; i < 60; i++) {
        weft_actor_kill(many[i].pid); /* some were already ended by a neighbour */
    }
    puppet_await(&a, 60);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 60);
    for (int i = 0; i < 60; i++) {
        int times = 0;
        for (int k = 0; k < 60; k++) {
            times += weft_pid_equal(a.seen[k].from, many[i].pid);
        }
        CHECK_EQ(times, 1);
    }
    puppet_host_end(host);
}

TEST(link_works_across_hosts)
{
    weft_host *one = puppet_host(), *two = puppet_host();
    puppet_start(one, &a);
    puppet_start(two, &b);
    puppet_trap(&a);
    CHECK_EQ(puppet_do(&a, links, &b.pid), 0);
    CHECK(forced_stop(two, NULL, 0) >= 0);
    CHECK(weft_pid_equal(puppet_await(&a, 1).from, b.pid));
    weft_host_destroy(two);
    puppet_host_end(one);
}

/* --- exits from outside ----------------------------------------------------------------------- */

TEST(exit_signal_ends_actor_with_reason_or_is_trapped)
{
    weft_host *host = pair(); /* b learns through its link why a ended */
    puppet_trap(&b);
    CHECK_EQ(weft_actor_exit(a.pid, 0, NULL), 0); /* nothing */
    puppet_settle(&a);
    CHECK_EQ(weft_actor_exit(b.pid, 0, NULL), 0); /* an event */
    CHECK_EQ(puppet_await(&b, 1).kind, WEFT_EVENT_EXIT);
    CHECK_EQ(weft_actor_exit(b.pid, -EPERM, weft_buf_copy("no", 2)), 0);
    struct seen s = puppet_await(&b, 2);
    CHECK_EQ(s.error, -EPERM);
    CHECK_EQ(s.tag, 0);
    CHECK_STR(s.text, "no");
    CHECK(weft_pid_is_none(s.from));
    CHECK_EQ(weft_actor_exit(a.pid, 7, weft_buf_copy("no", 2)), -EINVAL);
    CHECK_EQ(weft_actor_exit(a.pid, -EPERM, weft_buf_copy("out", 3)), 0);
    s = puppet_await(&b, 3);
    CHECK_EQ(s.error, -EPERM);
    CHECK_STR(s.text, "out");
    CHECK(weft_pid_equal(s.from, a.pid));
    CHECK_EQ(weft_actor_exit(a.pid, -EPERM, weft_buf_copy("out", 3)), -ESRCH);
    puppet_host_end(host);
}

TEST(kill_cannot_be_trapped)
{
    weft_host *host = pair();
    puppet_trap(&a);
    puppet_trap(&b);
    CHECK_EQ(weft_actor_kill(a.pid), 0);
    CHECK_EQ(puppet_await(&b, 1).error, -ECANCELED);
    puppet_host_end(host);
    CHECK_EQ(a.count, 0);
    CHECK_EQ(a.closed, 1);
}

TEST(disabled_trap_lets_linked_exit_end_actor)
{
    weft_host *host = pair();
    puppet_trap(&a);
    puppet_do(&a, traps, NULL);
    puppet_do(&b, fails, NULL);
    puppet_await_close(&a);
    puppet_host_end(host);
}
