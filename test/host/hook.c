/* labels: valgrind */
#include "host/puppet.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char seen[256];
static int veto;
static struct puppet a;

static void note(const char *what, const void *arg)
{
    pthread_mutex_lock(&lock);
    strcat(seen, what);
    strcat(seen, arg);
    pthread_mutex_unlock(&lock);
}

static int on_start(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, void *arg)
{
    (void)host;
    struct weft_actor_info info;
    CHECK(!weft_pid_is_none(pid));
    CHECK(kind->step != NULL);
    CHECK_EQ(weft_actor_info(pid, &info), -ESRCH); /* the PID is not published yet */
    note("+", arg);
    return *(const char *)arg == '3' ? veto : 0;
}

static void on_end(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, int reason,
                   void *arg)
{
    (void)host, (void)pid, (void)kind;
    note(reason == 0 ? "-" : reason == -EPERM ? "!" : reason == -EDOM ? "?" : "x", arg);
}

static char names[][2] = {"1", "2", "3", "4"};

static weft_host *hooked(void)
{
    weft_host *host = puppet_host();
    for (int i = 0; i < 4; i++) {
        struct weft_host_hook hook = {
            .name = names[i], .on_start = on_start, .on_end = on_end, .arg = names[i]};
        CHECK_EQ(weft_host_add_hook(host, &hook), 0);
        CHECK_EQ(weft_host_add_hook(host, &hook), -EEXIST);
    }
    CHECK_EQ(weft_host_add_hook(host, &(struct weft_host_hook){.name = "idle"}), -EINVAL);
    CHECK_EQ(weft_host_add_hook(host, &(struct weft_host_hook){.on_end = on_end}), -EINVAL);
    seen[0] = 0;
    veto = 0;
    return host;
}

TEST(host_hooks_run_start_in_order_and_end_in_reverse)
{
    weft_host *host = hooked();
    puppet_start(host, &a);
    CHECK_STR(seen, "+1+2+3+4");
    struct weft_host_hook late = {.name = "late", .on_end = on_end};
    CHECK_EQ(weft_host_add_hook(host, &late), -EBUSY);
    seen[0] = 0;
    puppet_do(&a, finishes, NULL);
    puppet_await_end(a.pid);
    CHECK_STR(seen, "-4-3-2-1"); /* before any other hook */
    seen[0] = 0;
    puppet_start(host, &a);
    puppet_do(&a, fails, NULL);
    puppet_await_end(a.pid);
    CHECK_STR(seen, "+1+2+3+4?4?3?2?1");
    puppet_host_end(host);
}

TEST(host_hook_veto_fails_spawn_and_undoes_all_effects)
{
    weft_host *host = hooked();
    veto = -EPERM;
    puppet_init(&a);
    weft_buf *input = puppet_input(&a);
    weft_pid pid = {.id = 0}, found;
    struct weft_actor_spawn_opts opts = {
        .input = input, .name = "a", .topic = "x", .message = weft_buf_copy("x", 1)};
    CHECK_EQ(weft_actor_spawn_with(host, &pid, &puppet_kind, &opts), -EPERM);
    CHECK_STR(seen, "+1+2+3!2!1");
    CHECK_EQ(a.closed, 1); /* the counterpart of init, once */
    CHECK_EQ(a.count, 0);
    CHECK(weft_pid_is_none(pid));
    CHECK_EQ(weft_actor_whereis(host, &found, "a"), -ENOENT);
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.spawned, 0);
    veto = 0;
    opts.message = NULL;
    CHECK_EQ(weft_actor_spawn_with(host, &pid, &puppet_kind, &opts), 0);
    weft_buf_free(input);
    puppet_host_end(host);
    CHECK_EQ(a.closed, 2);
}

static int refuses(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)self, (void)method, (void)input;
    return -EXDEV;
}

TEST(failed_init_calls_no_host_hook)
{
    static const struct weft_actor_kind kind = {
        .name = "no", .init = refuses, .step = puppet_step, .close = puppet_close};
    weft_host *host = hooked();
    CHECK_EQ(weft_actor_spawn(host, NULL, &kind, NULL, NULL), -EXDEV);
    CHECK_STR(seen, "");
    puppet_host_end(host);
}

/* --- dead letters ----------------------------------------------------------------------------- */

static struct weft_dead_letter last;
static char last_text[16];
static int dead;

static void on_dead(weft_host *host, const struct weft_dead_letter *letter, void *arg)
{
    (void)host;
    pthread_mutex_lock(&lock);
    CHECK(arg == &dead);
    dead++;
    last = *letter;
    snprintf(last_text, sizeof last_text, "%.*s", letter->buf ? (int)letter->buf->len : 0,
             letter->buf ? (const char *)letter->buf->data : "");
    pthread_mutex_unlock(&lock);
}

static uint64_t dead_letters(weft_host *host)
{
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    return stats.dead_letters;
}

TEST(send_to_exited_actor_is_reported_as_dead_letter)
{
    weft_host *host = puppet_host();
    dead = 0;
    CHECK_EQ(weft_host_on_dead_letter(host, on_dead, &dead), 0);
    puppet_start(host, &a);
    CHECK_EQ(weft_host_on_dead_letter(host, on_dead, &dead), -EBUSY);
    puppet_do(&a, finishes, NULL);
    puppet_await_end(a.pid);
    CHECK_EQ(weft_actor_send(a.pid, "hello", 9, weft_buf_copy("you", 3), WEFT_BY_POLICY), -ESRCH);
    CHECK_EQ(dead, 1);
    CHECK_EQ(dead_letters(host), 1);
    CHECK(weft_pid_equal(last.to, a.pid));
    CHECK(weft_pid_is_none(last.from));
    CHECK_STR(last.topic, "hello");
    CHECK_EQ(last.tag, 9);
    CHECK_STR(last_text, "you");
    CHECK_EQ(weft_actor_cancel(a.pid, "why"), -ESRCH); /* not a message */
    CHECK_EQ(dead_letters(host), 1);
    puppet_host_end(host);
}

static int sends_itself_and_ends(weft_actor *self, weft_out *out, void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_EQ(weft_actor_send(weft_actor_pid(self), "later", i, weft_buf_copy("x", 1),
                                 WEFT_BY_POLICY),
                 0);
    }
    weft_out_done(out, NULL);
    return 0;
}

TEST(queued_messages_at_exit_become_dead_letters)
{
    weft_host *host = puppet_host();
    dead = 0;
    CHECK_EQ(weft_host_on_dead_letter(host, on_dead, &dead), 0);
    puppet_start(host, &a);
    puppet_do(&a, sends_itself_and_ends, NULL);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(dead, 5);
    CHECK_EQ(dead_letters(host), 5);
    CHECK_EQ(last.tag, 4);
    CHECK(weft_pid_equal(last.to, a.pid) && weft_pid_equal(last.from, a.pid));
    weft_host_destroy(host);
    CHECK_EQ(weft_actor_send(a.pid, "later", 0, NULL, WEFT_BY_POLICY),
             -ESRCH); /* the handler is gone */
    CHECK_EQ(dead, 5);
}
