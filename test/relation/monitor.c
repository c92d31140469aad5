/* labels: valgrind */
#include "host/puppet.h"

#include "base/alloc.h"

static struct puppet a, b, c;
static weft_host *the_host;

TEST(each_monitor_fires_once_with_its_reference)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    struct watch one = {.pid = b.pid}, two = one;
    CHECK_EQ(puppet_do(&a, monitors, &one), 0);
    CHECK_EQ(puppet_do(&a, monitors, &two), 0);
    CHECK(one.ref != 0 && one.ref != two.ref);
    puppet_exit(&b, "tired");
    puppet_await(&a, 2);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 2);
    CHECK(a.seen[0].tag + a.seen[1].tag == one.ref + two.ref && a.seen[0].tag != a.seen[1].tag);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(a.seen[i].kind, WEFT_EVENT_DOWN);
        CHECK_EQ(a.seen[i].error, -EIO);
        CHECK_STR(a.seen[i].text, "tired");
        CHECK(weft_pid_equal(a.seen[i].from, b.pid));
    }
    puppet_host_end(host);
}

TEST(monitor_fires_on_normal_exit_and_is_one_way)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    struct watch watch = {.pid = b.pid};
    puppet_do(&a, monitors, &watch);
    puppet_do(&b, finishes, NULL);
    CHECK_EQ(puppet_await(&a, 1).error, 0);
    puppet_start(host, &c);
    watch.pid = c.pid;
    puppet_do(&a, monitors, &watch);
    puppet_do(&a, fails, NULL); /* the monitoring actor ends: no notification */
    puppet_await_end(a.pid);
    puppet_settle(&c);
    CHECK_EQ(puppet_count(&c), 0);
    puppet_host_end(host);
}

TEST(monitor_of_dead_actor_fires_immediately)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    puppet_do(&b, finishes, NULL);
    puppet_await_end(b.pid);
    struct watch watch = {.pid = b.pid};
    CHECK_EQ(puppet_do(&a, monitors, &watch), 0);
    struct seen s = puppet_await(&a, 1);
    CHECK_EQ(s.kind, WEFT_EVENT_DOWN);
    CHECK_EQ(s.error, -ESRCH);
    CHECK_EQ(s.tag, watch.ref);
    CHECK(weft_pid_equal(s.from, b.pid));
    watch.pid = (weft_pid){.id = (uint64_t)9 << 32 | (uint32_t)a.pid.id}; /* its own slot, reused */
    CHECK_EQ(puppet_do(&a, monitors, &watch), 0);
    CHECK_EQ(puppet_await(&a, 2).error, -ESRCH);
    watch.pid = a.pid;
    CHECK_EQ(puppet_do(&a, monitors, &watch), -EINVAL);
    watch.pid.node = 9;
    CHECK_EQ(puppet_do(&a, monitors, &watch), -EREMOTE);
    puppet_host_end(host);
}

TEST(demonitored_monitor_does_not_fire)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    struct watch one = {.pid = b.pid}, two = one;
    puppet_do(&a, monitors, &one);
    puppet_do(&a, monitors, &two);
    CHECK_EQ(puppet_do(&a, demonitors, &one), 0);
    CHECK_EQ(puppet_do(&a, demonitors, &one), -ENOENT);
    CHECK_EQ(puppet_do(&b, demonitors, &two), -ENOENT); /* not b's notification */
    puppet_do(&b, finishes, NULL);
    CHECK_EQ(puppet_await(&a, 1).tag, two.ref);
    CHECK_EQ(puppet_do(&a, demonitors, &two), -ENOENT); /* the notification arrived */
    CHECK_EQ(puppet_count(&a), 1);
    puppet_host_end(host);
}

TEST(demonitor_by_other_actor_returns_enoent)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    puppet_start(host, &c);
    struct watch of_c = {.pid = b.pid}, of_a = of_c;
    puppet_do(&c, monitors, &of_c);
    puppet_do(&a, monitors, &of_a);
    CHECK_EQ(puppet_do(&c, demonitors, &of_a), -ENOENT);
    puppet_do(&b, finishes, NULL);
    CHECK_EQ(puppet_await(&a, 1).tag, of_a.ref);
    CHECK_EQ(puppet_await(&c, 1).tag, of_c.ref);
    puppet_host_end(host);
}

static int takes_back_late(weft_actor *self, weft_out *out, void *arg)
{
    (void)out;
    CHECK_EQ(weft_actor_kill(b.pid), 0);
    puppet_spin_until_ended(the_host, 1);
    return weft_actor_demonitor(self, ((struct watch *)arg)->ref);
}

TEST(demonitor_discards_down_event_in_flight)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    struct watch one = {.pid = b.pid}, two = one;
    puppet_do(&a, monitors, &one);
    puppet_do(&a, monitors, &two);
    the_host = host;
    CHECK_EQ(puppet_do(&a, takes_back_late, &one), 0);
    CHECK_EQ(puppet_await(&a, 1).tag, two.ref); /* the other notification arrives */
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 1);
    puppet_host_end(host);
}

TEST(monitor_fires_on_kill_and_forced_stop)
{
    weft_host *host = puppet_host(), *other = puppet_host();
    puppet_start(host, &a);
    puppet_start(other, &b);
    puppet_start(other, &c);
    struct watch one = {.pid = b.pid}, two = {.pid = c.pid};
    puppet_do(&a, monitors, &one);
    puppet_do(&a, monitors, &two);
    CHECK_EQ(weft_actor_kill(b.pid), 0);
    CHECK_EQ(puppet_await(&a, 1).error, -ECANCELED);
    CHECK_EQ(forced_stop(other, NULL, 0), 1);
    struct seen s = puppet_await(&a, 2);
    CHECK_EQ(s.error, -ECANCELED);
    CHECK_EQ(s.tag, two.ref);
    weft_host_destroy(other);
    puppet_host_end(host);
}

/* Monitors b this many times, and reports how many notifications came before the query. */
enum { WATCHES = 2000 };

static int count_downs(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    int *told = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        uint64_t ref;
        if (events[i].kind == WEFT_EVENT_DOWN) {
            ++*told;
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            for (int k = 0; k < WATCHES && *told == 0; k++) {
                CHECK_EQ(weft_actor_monitor(self, &ref, b.pid), 0);
            }
            CHECK_EQ(weft_actor_reply(events[i].tag, -*told, NULL), 0);
        } else {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

TEST(join_returns_after_all_monitors_fired)
{
    static const struct weft_actor_kind counter = {
        .name = "counter", .state_bytes = sizeof(int), .step = count_downs};
    weft_host *host = puppet_host();
    struct weft_actor_info info;
    for (int i = 0; i < 10; i++) {
        weft_pid pid;
        puppet_start(host, &b);
        CHECK_EQ(weft_actor_spawn(host, &pid, &counter, NULL, NULL), 0);
        CHECK_EQ(weft_actor_call(pid, NULL, "watch", NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_actor_kill(b.pid), 0);
        while (weft_actor_info(b.pid, &info) == 0) {
        }
        int err = weft_actor_join(b.pid, NULL, WEFT_FOREVER); /* it is ending, or has ended */
        CHECK(err == -ECANCELED || err == -ESRCH);
        CHECK_EQ(weft_actor_call(pid, NULL, "how many", NULL, WEFT_FOREVER), -WATCHES);
    }
    puppet_host_end(host);
}

/* Every allocation fails from now on, and b ends. */
static int ends_in_want(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)arg;
    weft_out_done(out, NULL);
    weft__alloc_fail_after(1, true);
    return 0;
}

TEST(exit_is_delivered_without_memory)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    puppet_trap(&a);
    struct watch watch = {.pid = b.pid};
    puppet_do(&a, monitors, &watch);
    puppet_do(&a, links, &b.pid);
    puppet_do(&b, ends_in_want, NULL);
    puppet_await(&a, 2);
    weft__alloc_fail_after(0, false);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 2);
    puppet_host_end(host);
}

static int monitors_in_want(weft_actor *self, weft_out *out, void *arg)
{
    struct watch *watch = arg;
    (void)out;
    int failed = 0;
    for (int i = 1; i < 20; i++) {
        uint64_t ref;
        weft__alloc_fail_after(i, false);
        int err = weft_actor_monitor(self, &ref, watch->pid);
        int also = weft_actor_link(self, watch->pid);
        weft__alloc_fail_after(0, false);
        CHECK(err == 0 || err == -ENOMEM);
        CHECK(also == 0 || also == -ENOMEM);
        failed += err != 0;
        CHECK(err != 0 || weft_actor_demonitor(self, ref) == 0);
        weft_actor_unlink(self, watch->pid);
    }
    return failed;
}

TEST(monitor_or_link_without_memory_leaves_no_relation)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    struct watch watch = {.pid = b.pid};
    puppet_do(&a, monitors_in_want,
              &watch); /* the worker may have had cached blocks: any number of them may fail */
    puppet_do(&b, fails, NULL);
    puppet_await_end(b.pid);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 0);
    puppet_host_end(host);
}
