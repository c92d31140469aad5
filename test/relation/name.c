/* labels: valgrind */
#include "host/puppet.h"

static struct puppet a, b;

TEST(registered_name_resolves_to_one_actor_per_host)
{
    weft_host *host = puppet_host(), *other = puppet_host();
    weft_pid pid;
    char text[16];
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(weft_actor_whereis(host, &pid, "db"), -ENOENT);
    CHECK_EQ(weft_actor_name(a.pid, text, sizeof text), -ENOENT);
    CHECK_EQ(weft_actor_register(host, "db", a.pid), 0);
    CHECK_EQ(weft_actor_whereis(host, &pid, "db"), 0);
    CHECK(weft_pid_equal(pid, a.pid));
    CHECK_EQ(weft_actor_name(a.pid, text, sizeof text), 2);
    CHECK_STR(text, "db");
    CHECK_EQ(weft_actor_whereis(other, &pid, "db"), -ENOENT); /* each host has its own names */
    CHECK_EQ(weft_actor_register(other, "db", a.pid), -EINVAL);
    puppet_host_end(other);
    puppet_host_end(host);
}

TEST(register_of_remote_pid_is_refused)
{
    weft_host *host = puppet_host();
    char text[16];
    puppet_start(host, &a);
    CHECK_EQ(weft_actor_register(host, "db", a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "g", a.pid), 0);
    weft_pid far = a.pid, nobody = {.node = 9, .host = 1, .id = 0x0fffffff};
    far.node = 9;
    CHECK_EQ(weft_actor_name(far, text, sizeof text), -ESRCH);
    CHECK_EQ(weft_actor_register(host, "cache", far), -EINVAL);
    CHECK_EQ(weft_actor_register(host, "cache", nobody), -EINVAL);
    CHECK_EQ(weft_actor_group_join(host, "g", far), -EINVAL);
    CHECK_EQ(weft_actor_group_join(host, "g", nobody), -EINVAL);
    CHECK_EQ(weft_actor_group_leave(host, "g", far), -ENOENT);
    CHECK_EQ(weft_actor_group_members(host, NULL, 0, "g"), 1);
    puppet_host_end(host);
}

TEST(register_of_taken_name_returns_eexist_until_released)
{
    weft_host *host = puppet_host();
    weft_pid pid;
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(weft_actor_register(host, "db", a.pid), 0);
    CHECK_EQ(weft_actor_register(host, "db", b.pid), -EEXIST);
    CHECK_EQ(weft_actor_register(host, "db", a.pid), -EEXIST);
    CHECK_EQ(weft_actor_register(host, "cache", a.pid), 0); /* a second name for the same actor */
    CHECK_EQ(weft_actor_unregister(host, "db"), 0);
    CHECK_EQ(weft_actor_unregister(host, "db"), -ENOENT);
    CHECK_EQ(weft_actor_register(host, "db", b.pid), 0);
    CHECK_EQ(weft_actor_whereis(host, &pid, "cache"), 0);
    CHECK(weft_pid_equal(pid, a.pid));
    puppet_host_end(host);
}

TEST(exit_releases_names_before_monitors_fire)
{
    weft_host *host = puppet_host();
    weft_pid pid;
    char name[32];
    puppet_start(host, &a);
    puppet_start(host, &b);
    for (int i = 0; i < 100; i++) { /* the table grows */
        snprintf(name, sizeof name, "name %d", i);
        CHECK_EQ(weft_actor_register(host, name, a.pid), 0);
    }
    struct watch watch = {.pid = a.pid};
    puppet_do(&b, monitors, &watch);
    puppet_do(&a, fails, NULL);
    puppet_await(&b, 1);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "name %d", i);
        CHECK_EQ(weft_actor_whereis(host, &pid, name), -ENOENT);
        CHECK_EQ(weft_actor_register(host, name, a.pid), -ESRCH);
        CHECK_EQ(weft_actor_register(host, name, b.pid), 0);
    }
    CHECK_EQ(weft_actor_name(a.pid, name, sizeof name), -ESRCH);
    puppet_host_end(host);
}

TEST(name_of_any_length_resolves)
{
    weft_host *host = puppet_host();
    char text[5000] = "", back[5000];
    puppet_start(host, &a);
    puppet_start(host, &b);
    memset(text, 'x', sizeof text - 1);
    CHECK_EQ(weft_actor_register(host, text, a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, text, a.pid), 0);
    CHECK_EQ(weft_actor_group_members(host, NULL, 0, text), 1);
    CHECK_EQ(weft_actor_name(a.pid, back, sizeof back), (int)strlen(text));
    CHECK_STR(back, text);
    text[sizeof text - 2] = 'y';
    CHECK_EQ(weft_actor_register(host, text, b.pid), 0); /* another actor */
    weft_pid found;
    CHECK_EQ(weft_actor_whereis(host, &found, text), 0);
    CHECK(weft_pid_equal(found, b.pid));
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(b.pid, &info), 0);
    CHECK_EQ(strlen(info.name), sizeof info.name - 1);
    puppet_host_end(host);
}

TEST(empty_name_or_dead_pid_is_refused_by_register)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    CHECK_EQ(weft_actor_register(host, "", a.pid), -EINVAL);
    CHECK_EQ(weft_actor_group_join(host, "", a.pid), -EINVAL);
    weft_pid nobody = {.host = 1, .id = (uint64_t)5 << 32 | 0x0fffffff};
    CHECK_EQ(weft_actor_register(host, "nobody", nobody), -ESRCH);
    puppet_host_end(host);
}

/* --- groups --------------------------------------------------------------------------------- */

TEST(publish_reaches_every_group_member)
{
    weft_host *host = puppet_host();
    weft_pid pids[4];
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(weft_actor_group_members(host, pids, 4, "news"), 0);
    CHECK_EQ(weft_actor_group_publish(host, "news", "hot", 1, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_group_join(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "news", b.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "other", b.pid), 0);
    CHECK_EQ(weft_actor_group_members(host, pids, 4, "news"), 2);
    CHECK(weft_pid_equal(pids[0], a.pid) && weft_pid_equal(pids[1], b.pid));
    CHECK_EQ(weft_actor_group_members(host, pids, 1, "news"), 2);
    weft_buf *buf = weft_buf_copy("rain", 4);
    CHECK_EQ(weft_actor_group_publish(host, "news", "hot", 7, buf, WEFT_BY_POLICY), 2);
    weft_buf_free(buf);
    struct seen s = puppet_await(&a, 1);
    CHECK_STR(s.text, "rain");
    CHECK_STR(s.topic, "hot");
    CHECK_EQ(s.tag, 7);
    CHECK_STR(puppet_await(&b, 1).text, "rain");
    puppet_host_end(host);
}

TEST(group_join_is_counted_and_exit_leaves_group)
{
    weft_host *host = puppet_host();
    weft_pid pids[4];
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(weft_actor_group_join(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_members(host, pids, 4, "news"), 1);
    CHECK_EQ(weft_actor_group_publish(host, "news", "hot", 1, NULL, WEFT_BY_POLICY),
             1); /* once each */
    CHECK_EQ(weft_actor_group_leave(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_members(host, pids, 4, "news"), 1);
    CHECK_EQ(weft_actor_group_leave(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_leave(host, "news", a.pid), -ENOENT);
    CHECK_EQ(weft_actor_group_leave(host, "never", a.pid), -ENOENT);
    CHECK_EQ(weft_actor_group_members(host, pids, 4, "news"), 0);
    CHECK_EQ(weft_actor_group_join(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "news", a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "news", b.pid), 0);
    struct watch watch = {.pid = a.pid};
    puppet_do(&b, monitors, &watch);
    puppet_do(&a, finishes, NULL);
    puppet_await(&b, 1);
    CHECK_EQ(weft_actor_group_members(host, pids, 4, "news"), 1);
    CHECK(weft_pid_equal(pids[0], b.pid));
    CHECK_EQ(weft_actor_group_join(host, "news", a.pid), -ESRCH);
    CHECK_EQ(weft_actor_group_leave(host, "news", a.pid), -ENOENT);
    CHECK_EQ(weft_actor_group_join(host, "", b.pid), -EINVAL);
    puppet_host_end(host);
}

static int sleeps(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    return 0;
}

TEST(publish_reaches_group_of_300_members)
{
    enum { MANY = 300 };
    static const struct weft_actor_kind sleeper = {.name = "sleeper", .step = sleeps};
    static weft_pid pids[MANY];
    weft_host *host = puppet_host();
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pids[i], &sleeper, NULL, NULL), 0);
        CHECK_EQ(weft_actor_group_join(host, "crowd", pids[i]), 0);
    }
    CHECK_EQ(weft_actor_group_publish(host, "crowd", "hi", 0, NULL, WEFT_BY_POLICY), MANY);
    puppet_host_end(host);
}
