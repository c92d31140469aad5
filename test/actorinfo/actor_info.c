/* labels: valgrind */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"
#include "host/state.h"

static weft_host *make_host(const char *name)
{
    weft_host *host;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.name = name, .workers = 1}), 0);
    return host;
}

static void end_host(weft_host *host)
{
    CHECK_EQ(weft_host_stop(host, "enough", WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- a family ------------------------------------------------------------------------------- */

static weft_pid son, daughter;

static int idle_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}
static const struct weft_actor_kind idler = {.name = "son", .step = idle_step};

static int daughter_run(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    while (weft_actor_receive(&event, WEFT_FOREVER) == 0 && event->kind != WEFT_EVENT_CANCEL) {
    }
    return 0;
}
static const struct weft_actor_kind runner = {.name = "a \"daughter\"", .run = daughter_run};

static weft_host *elsewhere;

static int parent_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    if (n == 0) {
        CHECK_EQ(info_of(weft_actor_pid(self)).state, WEFT_ACTOR_RUNNING);
        CHECK_EQ(weft_actor_spawn(weft_actor_host(self), &son, &idler, NULL, NULL), 0);
        CHECK_EQ(info_of(son).state, WEFT_ACTOR_READY);
        CHECK_EQ(weft_actor_spawn(elsewhere, &daughter, &runner, NULL, NULL), 0);
    }
    return idle_step(self, events, n, out);
}
static const struct weft_actor_kind parent_kind = {.name = "parent", .step = parent_step};

struct found {
    weft_pid pids[8];
    int n, most;
};

static bool find(const struct weft_actor_info *info, void *arg)
{
    struct found *found = arg;
    found->pids[found->n++] = info->pid;
    return found->n < found->most;
}

static char *dumped(weft_host *host, enum weft_dump_format format, size_t max)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    CHECK_EQ(weft_actor_dump(host, out, format, max), 0);
    fclose(out);
    return text;
}

static bool has(const char *text, const char *part)
{
    bool found = strstr(text, part) != NULL;
    if (!found) {
        fprintf(stderr, "%s\nhas no \"%s\"\n", text, part);
    }
    return found;
}

static void check_pages(weft_host *host, weft_pid parent)
{
    char pid[64], line[256];
    char *text = dumped(host, WEFT_DUMP_TEXT, 0);
    CHECK(has(text, "host home: 2 actors, 2 spawned, 0 ended, 0 dead letters; 1 workers, "));
    weft_pid_format(parent, pid, sizeof pid);
    snprintf(line, sizeof line, "\n  %s parent idle mailbox=0 steps=2 age=", pid);
    CHECK(has(text, line));
    CHECK(has(text, " name=mother last=greeting\n"));
    weft_pid_format(son, pid, sizeof pid);
    snprintf(line, sizeof line, "\n    %s son idle mailbox=0 steps=1 age=", pid); /* a child */
    CHECK(has(text, line));
    free(text);
    text = dumped(elsewhere, WEFT_DUMP_JSON, 0);
    CHECK(
        has(text, "{\"weft_actors\":1,\"hosts\":[\n{\"name\":\"away\",\"live\":1,\"spawned\":1,"));
    CHECK(has(text,
              "\"kind\":\"a \\\"daughter\\\"\",\"state\":\"idle\",\"fiber\":true,\"mailbox\":0"));
    CHECK(has(text, "\"name\":null,"));
    weft_pid_format(parent, pid, sizeof pid);
    snprintf(line, sizeof line, "\"parent\":\"%s\"", pid);
    CHECK(has(text, line));
    CHECK(has(text, "\"topic\":null"));
    free(text);
    text = dumped(NULL, WEFT_DUMP_TEXT, 1);
    CHECK(has(text, "host home"));
    CHECK(has(text, "host away"));
    CHECK(has(text, "  ... and 1 more\n"));
    free(text);
    text = dumped(host, WEFT_DUMP_JSON, 1);
    CHECK(has(text, "\"cut\":1"));
    free(text);
    CHECK_EQ(weft_actor_dump(host, stdout, (enum weft_dump_format)9, 0), -EINVAL);
}

/* Actors are recognizable among the fibers. */
static void check_dump(void)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    CHECK_EQ(weft_dump(out, &(struct weft_dump_opts){.no_frames = true}), 0);
    fclose(out);
    CHECK(has(text, " actor=parent idle mailbox=0 steps=2\n"));
    CHECK(has(text, " actor=a \"daughter\" idle mailbox=0 steps=0\n"));
    free(text);
    out = open_memstream(&text, &len);
    CHECK_EQ(weft_dump(out, &(struct weft_dump_opts){.no_frames = true, .format = WEFT_DUMP_JSON}),
             0);
    fclose(out);
    CHECK(has(text, "\"actor\":{\"kind\":\"parent\",\"state\":\"idle\",\"mailbox\":0,\"steps\":2,"
                    "\"topic\":\"greeting\"}"));
    free(text);
}

static bool count_host(weft_host *host, void *arg)
{
    CHECK(host != NULL);
    return ++*(int *)arg < 2;
}

TEST(actor_info_and_dump_show_parent_child_tree)
{
    weft_host *host = make_host("home");
    elsewhere = make_host("away");
    weft_pid parent;
    CHECK_EQ(weft_actor_spawn(host, &parent, &parent_kind, NULL, NULL), 0);
    until(parent, WEFT_ACTOR_IDLE);
    until(son, WEFT_ACTOR_IDLE);
    until(daughter, WEFT_ACTOR_IDLE);
    CHECK_STR(info_of(parent).name, "");
    CHECK_EQ(weft_actor_register(host, "mother", parent), 0);
    CHECK_EQ(weft_actor_register(host, "also mother", parent), 0);
    CHECK_EQ(weft_actor_send(parent, "greeting", 0, NULL, WEFT_BY_POLICY), 0);
    until(parent, WEFT_ACTOR_IDLE);
    struct weft_actor_info info = info_of(parent);
    CHECK(weft_pid_is_none(info.parent));
    CHECK_STR(info.name, "mother");
    CHECK_EQ(info.steps, 2);
    CHECK_STR(info.topic, "greeting");
    CHECK(!info.fiber);
    CHECK(info.age_ns >= 0);
    CHECK(weft_pid_equal(info.pid, parent));
    info = info_of(daughter);
    CHECK(weft_pid_equal(info.parent, parent)); /* also from another host */
    CHECK(info.fiber);
    CHECK(info.topic == NULL);
    CHECK(weft_pid_equal(info_of(son).parent, parent));

    struct found found = {.most = 8};
    weft_actor_each(host, find, &found);
    CHECK_EQ(found.n, 2);
    found = (struct found){.most = 8};
    weft_actor_each(NULL, find, &found);
    CHECK_EQ(found.n, 3);
    found = (struct found){.most = 1};
    weft_actor_each(NULL, find, &found);
    CHECK_EQ(found.n, 1);
    int hosts = 0;
    weft_host_each(count_host, &hosts);
    CHECK_EQ(hosts, 2);

    check_pages(host, parent);
    check_dump();
    end_host(host);
    end_host(elsewhere);
    char *text = dumped(NULL, WEFT_DUMP_TEXT, 0);
    CHECK_STR(text, "no hosts\n");
    free(text);
    text = dumped(NULL, WEFT_DUMP_JSON, 0);
    CHECK_STR(text, "{\"weft_actors\":1,\"hosts\":[]}\n");
    free(text);
}

TEST(actor_state_names_are_stable)
{
    CHECK_STR(weft_actor_state_name(WEFT_ACTOR_READY), "ready");
    CHECK_STR(weft_actor_state_name(WEFT_ACTOR_RUNNING), "running");
    CHECK_STR(weft_actor_state_name(WEFT_ACTOR_BLOCKED), "blocked");
    CHECK_STR(weft_actor_state_name(WEFT_ACTOR_IDLE), "idle");
    CHECK_STR(weft_actor_state_name(WEFT_ACTOR_COMPLETE), "complete");
    CHECK_STR(weft_actor_state_name((enum weft_actor_state)77), "unknown");
}

/* --- under concurrent change ------------------------------------------------------------------ */

static atomic_int left;

static int breed(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    static const struct weft_actor_kind kind = {.name = "mayfly", .step = breed};
    (void)events, (void)n;
    if (atomic_fetch_sub(&left, 1) > 0) {
        CHECK_EQ(weft_actor_spawn(weft_actor_host(self), NULL, &kind, NULL, NULL), 0);
    }
    weft_out_done(out, NULL);
    return 0;
}

static int breed_fiber(weft_actor *self, weft_buf **result)
{
    static const struct weft_actor_kind kind = {.name = "mayfly", .run = breed_fiber};
    (void)result;
    if (atomic_fetch_sub(&left, 1) > 0) {
        CHECK_EQ(weft_actor_spawn(weft_actor_host(self), NULL, &kind, NULL, NULL), 0);
    }
    return 0;
}

static bool check_one(const struct weft_actor_info *info, void *arg)
{
    (void)arg;
    CHECK_STR(info->kind, "mayfly");
    return true;
}

TEST(actor_dump_is_safe_while_actors_spawn_and_exit)
{
    static const struct weft_actor_kind kinds[] = {{.name = "mayfly", .step = breed},
                                                   {.name = "mayfly", .run = breed_fiber}};
    weft_host *host;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    atomic_store(&left, 3000);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_actor_spawn(host, NULL, &kinds[i % 2], NULL, NULL), 0);
    }
    struct weft_host_stats stats;
    do {
        weft_actor_each(host, check_one, NULL);
        char *text = dumped(host, WEFT_DUMP_JSON, 0);
        free(text);
        FILE *null = fopen("/dev/null", "w");
        CHECK_EQ(weft_dump(null, &(struct weft_dump_opts){.no_frames = true}), 0);
        fclose(null);
        weft_host_stats(host, &stats);
    } while (stats.ended < stats.spawned || stats.spawned < 3008);
    end_host(host);
}
