/* labels: valgrind */
#include "host/puppet.h"

#include "base/alloc.h"

static struct puppet a, b, c;

struct order {
    weft_host *host;
    struct weft_actor_spawn_opts opts;
    const struct weft_actor_kind *kind;
    weft_pid pid;
    uint64_t ref;
};

static int spawns(weft_actor *self, weft_out *out, void *arg)
{
    struct order *order = arg;
    (void)out;
    order->opts.self = self;
    return weft_actor_spawn_with(order->host, &order->pid, order->kind, &order->opts);
}

/* Ends with -EPERM in its first step. */
static int ends_at_once(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    (void)self, (void)events, (void)n, (void)out;
    return -EPERM;
}
static const struct weft_actor_kind brief = {.name = "brief", .step = ends_at_once};

TEST(linked_spawn_exiting_at_once_sends_exit_event)
{
    weft_host *host = puppet_host();
    for (int i = 0; i < 50; i++) {
        puppet_start(host, &a);
        puppet_trap(&a);
        struct order order = {.host = host, .kind = &brief, .opts = {.link = true}};
        CHECK_EQ(puppet_do(&a, spawns, &order), 0);
        struct seen s = puppet_await(&a, 1);
        CHECK_EQ(s.kind, WEFT_EVENT_EXIT);
        CHECK_EQ(s.error, -EPERM);
        CHECK(weft_pid_equal(s.from, order.pid));
        puppet_do(&a, finishes, NULL);
        puppet_await_end(a.pid);
    }
    puppet_host_end(host);
}

TEST(spawn_with_link_and_monitor_delivers_both_events)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_trap(&a);
    struct order order = {.host = host, .kind = &brief, .opts = {.link = true}};
    order.opts.monitor = &order.ref;
    CHECK_EQ(puppet_do(&a, spawns, &order), 0);
    puppet_await(&a, 2);
    CHECK(order.ref != 0);
    CHECK(a.seen[0].kind != a.seen[1].kind);
    CHECK_EQ(a.seen[0].error, -EPERM);
    CHECK_EQ(a.seen[1].error, -EPERM);
    CHECK_EQ(a.seen[a.seen[0].kind == WEFT_EVENT_DOWN ? 0 : 1].tag, order.ref);
    CHECK_EQ(
        weft_actor_spawn_with(host, NULL, &brief, &(struct weft_actor_spawn_opts){.link = true}),
        -EINVAL);
    puppet_host_end(host);
}

static int takes_nothing(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    (void)self, (void)events, (void)n, (void)out;
    return 0;
}

static int runs_not(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    return 0;
}

TEST(spawn_with_oversized_state_returns_enomem)
{
    weft_host *host = puppet_host();
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 200, (size_t)PTRDIFF_MAX + 1};
    for (int i = 0; i < 8; i++) {
        struct weft_actor_kind kind = {.name = "vast", .state_bytes = sizes[i / 2]};
        if (i % 2) {
            kind.run = runs_not;
        } else {
            kind.step = takes_nothing;
        }
        CHECK_EQ(weft_actor_spawn(host, NULL, &kind, NULL, NULL), -ENOMEM);
    }
    puppet_host_end(host);
}

TEST(untrapped_linked_spawn_exit_ends_spawner)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    struct order order = {.host = host, .kind = &brief, .opts = {.link = true}};
    CHECK_EQ(puppet_do(&a, spawns, &order), 0);
    puppet_await_close(&a);
    puppet_host_end(host);
}

TEST(named_spawn_creates_actor_or_messages_existing)
{
    weft_host *host = puppet_host();
    weft_pid one, two;
    puppet_init(&a);
    puppet_init(&b);
    weft_buf *input = puppet_input(&a), *other = puppet_input(&b);
    struct weft_actor_spawn_opts opts = {.input = input,
                                         .name = "one",
                                         .topic = "hello",
                                         .tag = 1,
                                         .message = weft_buf_copy("x", 1)};
    CHECK_EQ(weft_actor_spawn_with(host, &one, &puppet_kind, &opts), 0);
    CHECK_EQ(puppet_await(&a, 1).tag, 1);
    opts.input = other;
    opts.tag = 2;
    opts.message = weft_buf_copy("y", 1);
    CHECK_EQ(weft_actor_spawn_with(host, &two, &puppet_kind, &opts), 1);
    CHECK(weft_pid_equal(one, two));
    struct seen s = puppet_await(&a, 2);
    CHECK_EQ(s.tag, 2);
    CHECK_STR(s.text, "y");
    opts.topic = NULL;
    opts.message = NULL;
    CHECK_EQ(weft_actor_spawn_with(host, &two, &puppet_kind, &opts), 1); /* without a message */
    a.pid = one;
    puppet_do(&a, finishes, NULL);
    puppet_await_end(one);
    CHECK_EQ(weft_actor_spawn_with(host, &two, &puppet_kind, &opts), 0); /* the name is free */
    CHECK(!weft_pid_equal(one, two));
    opts.name = "";
    CHECK_EQ(weft_actor_spawn_with(host, &two, &puppet_kind, &opts), -EINVAL);
    weft_buf_free(input);
    weft_buf_free(other);
    puppet_host_end(host);
}

static int inits;

static int says_it_exists(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)self, (void)method, (void)input;
    inits++;
    return -EEXIST;
}

TEST(init_returning_eexist_is_not_retried)
{
    static const struct weft_actor_kind kind = {
        .name = "second", .init = says_it_exists, .step = ends_at_once};
    weft_host *host = puppet_host();
    struct weft_actor_spawn_opts opts = {.name = "one", .topic = "hello"};
    inits = 0;
    CHECK_EQ(weft_actor_spawn_with(host, NULL, &kind, &opts), -EEXIST);
    CHECK_EQ(inits, 1);
    puppet_host_end(host);
}

/* Threads that compete for one name. */
static weft_host *the_host;
static struct puppet racers[8][20];

static void *races(void *arg)
{
    struct puppet *mine = arg;
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        puppet_init(&mine[i]);
        weft_buf *input = puppet_input(&mine[i]);
        struct weft_actor_spawn_opts opts = {.input = input, .name = name, .topic = "hello"};
        int err = weft_actor_spawn_with(the_host, &mine[i].pid, &puppet_kind, &opts);
        CHECK(err == 0 || err == 1);
        weft_buf_free(input);
    }
    return NULL;
}

TEST(racing_named_spawns_yield_one_owner_of_all_messages)
{
    pthread_t threads[8];
    the_host = puppet_host();
    for (int t = 0; t < 8; t++) {
        pthread_create(&threads[t], NULL, races, racers[t]);
    }
    for (int t = 0; t < 8; t++) {
        pthread_join(threads[t], NULL);
    }
    for (int i = 0; i < 20; i++) {
        int owner = -1;
        for (int t = 0; t < 8; t++) {
            CHECK(weft_pid_equal(racers[t][i].pid, racers[0][i].pid));
        }
        while (owner < 0) { /* find the thread whose actor won */
            for (int t = 0; t < 8; t++) {
                owner = puppet_count(&racers[t][i]) > 0 ? t : owner;
            }
        }
        puppet_await(&racers[owner][i], 8);
        for (int t = 0; t < 8; t++) { /* an actor whose init lost the name was closed */
            CHECK(t == owner || puppet_count(&racers[t][i]) == 0);
        }
    }
    puppet_host_end(the_host);
}

/* --- exec ------------------------------------------------------------------------------------- */

static int answers(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_done(out, weft_buf_copy("42", 2));
    return 0;
}
static const struct weft_actor_kind answerer = {.name = "answerer", .step = answers};

static void *exec_in_fiber(void *arg)
{
    weft_buf *result = NULL;
    CHECK_EQ(weft_actor_exec(arg, &result, &answerer, NULL, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(result->len, 2);
    weft_buf_free(result);
    return NULL;
}

TEST(exec_always_returns_result)
{
    weft_host *host = puppet_host();
    weft_buf *result;
    for (int i = 0; i < 100; i++) {
        result = NULL;
        CHECK_EQ(weft_actor_exec(host, &result, &answerer, NULL, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(result->len, 2);
        weft_buf_free(result);
    }
    CHECK_EQ(weft_actor_exec(host, NULL, &brief, NULL, NULL, WEFT_FOREVER), -EPERM);
    weft_pool *pool;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, exec_in_fiber, host, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    puppet_host_end(host);
}

TEST(exec_kills_actor_at_deadline)
{
    weft_host *host = puppet_host();
    puppet_init(&a);
    weft_buf *input = puppet_input(&a);
    CHECK_EQ(weft_actor_exec(host, NULL, &puppet_kind, NULL, input, weft_after(1000000)),
             -ETIMEDOUT);
    puppet_await_close(&a);
    weft_buf_free(input);
    puppet_host_end(host);
}

/* From its first step on, no memory is available. */
static int starves(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    weft__alloc_fail_after(1, true);
    return 0;
}

TEST(exec_ends_actor_even_without_memory)
{
    static const struct weft_actor_kind kind = {.name = "starving",
                                                .state_bytes = sizeof(struct puppet *),
                                                .init = puppet_begin,
                                                .step = starves,
                                                .close = puppet_close};
    weft_host *host = puppet_host();
    puppet_init(&a);
    weft_buf *input = puppet_input(&a);
    int err = weft_actor_exec(host, NULL, &kind, NULL, input, weft_after(50000000));
    CHECK_EQ(err, -ETIMEDOUT);
    puppet_await_close(&a);
    weft__alloc_fail_after(0, false);
    weft_buf_free(input);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0); /* this did not count as a forced end */
    weft_host_destroy(host);
}

/* --- out of memory ---------------------------------------------------------------------------- */

static int links_and_fails(weft_actor *self, const char *method, const weft_buf *input)
{
    uint64_t ref;
    weft_pid pid;
    (void)method;
    memcpy(&pid, input->data, sizeof pid);
    CHECK_EQ(weft_actor_link(self, pid), 0);
    CHECK_EQ(weft_actor_monitor(self, &ref, pid), 0);
    return -EXDEV;
}

static void never_closed(weft_actor *self)
{
    (void)self;
    CHECK(false);
}

TEST(failed_init_leaves_no_link)
{
    static const struct weft_actor_kind kind = {
        .name = "failing", .init = links_and_fails, .step = ends_at_once, .close = never_closed};
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    weft_buf *input = weft_buf_copy(&a.pid, sizeof a.pid);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_actor_spawn(host, NULL, &kind, NULL, input), -EXDEV);
    }
    weft_buf_free(input);
    puppet_trap(&a);
    puppet_settle(&a);
    CHECK_EQ(puppet_count(&a), 0);
    puppet_host_end(host);
}

static int links_in_init(weft_actor *self, const char *method, const weft_buf *input)
{
    weft_pid pid;
    (void)method;
    memcpy(&pid, input->data, sizeof pid);
    return weft_actor_link(self, pid);
}

TEST(link_made_in_init_is_effective)
{
    static const struct weft_actor_kind kind = {
        .name = "linking", .init = links_in_init, .step = ends_at_once};
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_trap(&a);
    weft_buf *input = weft_buf_copy(&a.pid, sizeof a.pid);
    CHECK_EQ(weft_actor_spawn(host, NULL, &kind, NULL, input), 0);
    CHECK_EQ(puppet_await(&a, 1).error, -EPERM);
    weft_buf_free(input);
    puppet_host_end(host);
}

/* Whichever allocation fails, there is either a complete actor or nothing. */
static int spawns_in_want(weft_actor *self, weft_out *out, void *arg)
{
    struct order *order = arg;
    int made = 0;
    (void)out;
    for (int i = 1; i < 30; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        struct weft_actor_spawn_opts opts = order->opts;
        opts.self = self;
        opts.name = name;
        opts.message = weft_buf_copy("x", 1);
        weft__alloc_fail_after(i, false);
        int err = weft_actor_spawn_with(order->host, &order->pid, order->kind, &opts);
        weft__alloc_fail_after(0, false);
        CHECK(err == 0 || err == -ENOMEM);
        weft_pid found;
        CHECK_EQ(weft_actor_whereis(order->host, &found, name), err ? -ENOENT : 0);
        made += err == 0;
    }
    return made;
}

TEST(spawn_without_memory_leaves_nothing_behind)
{
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_trap(&a);
    puppet_init(&c);
    weft_buf *input = puppet_input(&c);
    struct order order = {.host = host, .kind = &puppet_kind, .opts = {.link = true}};
    order.opts.monitor = &order.ref;
    order.opts.input = input;
    order.opts.topic = "hello";
    int made = puppet_do(&a, spawns_in_want, &order);
    CHECK(made > 0);
    puppet_await(&c, made);
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, made + 1);
    weft_buf_free(input);
    puppet_host_end(host);
    CHECK_EQ(c.closed, made);
}

TEST(spawn_after_host_stop_returns_eshutdown)
{
    weft_host *host = puppet_host();
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &brief, NULL, NULL), -ESHUTDOWN);
    weft_host_destroy(host);
}
