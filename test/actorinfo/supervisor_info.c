/* labels: valgrind */
/* The supervision tree as the inspection API reports it. */
#include "supervisor/children.h"

static bool has(const char *text, const char *part)
{
    bool found = strstr(text, part) != NULL;
    if (!found) {
        fprintf(stderr, "%s\nhas no \"%s\"\n", text, part);
    }
    return found;
}

/* A dump page of actors or fibers; the caller frees it. */
static char *page(weft_host *host, enum weft_dump_format format)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    int err = host ? weft_actor_dump(host, out, format, 0)
                   : weft_dump(out, &(struct weft_dump_opts){.no_frames = true, .format = format});
    CHECK_EQ(err, 0);
    fclose(out);
    return text;
}

static void check_page(weft_host *host, weft_pid top, weft_pid below, weft_pid a)
{
    char line[256], pid[64];
    char *text = page(host, WEFT_DUMP_TEXT);
    weft_pid_format(top, pid, sizeof pid);
    snprintf(line, sizeof line, "\n  %s supervisor idle ", pid);
    CHECK(has(text, line));
    CHECK(has(text, " supervisor=top strategy=rest-for-one children=3 down=1 restarts=0\n"
                    "    - child=x failed restarts=0 error=-33\n"));
    weft_pid_format(below, pid, sizeof pid);
    snprintf(line, sizeof line, "\n    %s supervisor idle ", pid);
    CHECK(has(text, line));
    CHECK(has(text, " supervisor=low strategy=one-for-one children=2 down=0 restarts=1"
                    " child=low running restarts=0\n"));
    weft_pid_format(a, pid, sizeof pid);
    snprintf(line, sizeof line, "\n      %s child idle ", pid);
    CHECK(has(text, line));
    CHECK(has(text, " child=a running restarts=1\n"));
    CHECK(has(text, " child=b running restarts=0\n"));
    CHECK(has(text, "\n  worker 1: "));
    CHECK(has(text, " stolen, ring="));
    free(text);
    text = page(host, WEFT_DUMP_JSON);
    CHECK(has(text, "\"supervisor\":{\"name\":\"top\",\"strategy\":\"rest-for-one\",\"children\":3,"
                    "\"down\":1,\"restarts\":0,\"absent\":[{\"name\":\"x\",\"state\":\"failed\","
                    "\"restarts\":0,\"error\":-33}]}}"));
    CHECK(has(text, "\"restarts\":1,\"absent\":[]},\"child\":{\"name\":\"low\",\"state\":"
                    "\"running\",\"restarts\":0}}"));
    CHECK(has(text, "\"child\":{\"name\":\"a\",\"state\":\"running\",\"restarts\":1}}"));
    CHECK(has(text, "\"queues\":[{\"executed\":"));
    free(text);
}

static void check_fibers(weft_pid top, weft_pid below)
{
    char line[256], id[32];
    char *text = page(NULL, WEFT_DUMP_TEXT);
    CHECK(has(text, " supervisor=top strategy=rest-for-one children=3 down=1 restarts=0\n"));
    weft_fiber_format(top.id, id, sizeof id);
    snprintf(line, sizeof line, " child=low of=%s restarts=0\n", id);
    CHECK(has(text, line));
    weft_fiber_format(below.id, id, sizeof id);
    snprintf(line, sizeof line, " child=a of=%s restarts=1\n", id);
    CHECK(has(text, line));
    free(text);
    text = page(NULL, WEFT_DUMP_JSON);
    CHECK(has(text, "\"supervisor\":{\"name\":\"low\",\"strategy\":\"one-for-one\",\"children\":2,"
                    "\"down\":0,\"restarts\":1},\"child\":{\"name\":\"low\",\"of\":\""));
    snprintf(line, sizeof line,
             "\"child\":{\"name\":\"a\",\"of\":\"%s\",\"state\":\"running\",\"restarts\":1}}", id);
    CHECK(has(text, line));
    free(text);
}

static void await_idle(weft_pid pid)
{
    struct weft_actor_info info;
    do {
        sched_yield();
        CHECK_EQ(weft_actor_info(pid, &info), 0);
    } while (info.state != WEFT_ACTOR_IDLE);
}

TEST(supervisor_tree_is_shown_in_snapshot_and_fiber_dump)
{
    static const struct weft_supervisor_opts low = {.name = "low", .children = abc, .count = 2};
    static const struct weft_child_spec children[] = {{.name = "low", .supervisor = &low},
                                                      CHILD("x", .restart = WEFT_CHILD_TEMPORARY),
                                                      CHILD("z")};
    weft_host *host = make_host();
    weft_pid pid = start(
        host, &(struct weft_supervisor_opts){
                  .name = "top", .strategy = WEFT_REST_FOR_ONE, .children = children, .count = 3});
    weft_pid below = look(pid, "low").pid;
    tell(below, "a", "crash");
    await("+a +b +x +z -a +a");
    weft_pid a = await_state(below, "a", WEFT_CHILD_RUNNING).pid;
    tell(pid, "x", "crash");
    await_state(pid, "x", WEFT_CHILD_FAILED);
    await_idle(pid);
    await_idle(below);
    await_idle(a);
    check_page(host, pid, below, a);
    check_fibers(pid, below);
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

/* Inspects while all actors come and go. */
static void *look_on(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        free(page(NULL, WEFT_DUMP_TEXT));
    }
    return NULL;
}

TEST(supervisor_snapshots_are_safe_during_exits)
{
    static const struct weft_supervisor_opts low = {.name = "low", .children = abc, .count = 3};
    static const struct weft_child_spec children[] = {{.name = "low", .supervisor = &low},
                                                      CHILD("z")};
    weft_host *host = make_host();
    pthread_t looker;
    atomic_bool enough = false;
    CHECK_EQ(pthread_create(&looker, NULL, look_on, &enough), 0);
    for (int i = 0; i < 50; i++) {
        weft_pid pid =
            start(host, &(struct weft_supervisor_opts){.children = children, .count = 2});
        tell(look(pid, "low").pid, "a", "crash");
        free(page(host, WEFT_DUMP_JSON));
        CHECK_EQ(stop(pid), 0);
        forget();
    }
    atomic_store(&enough, true);
    pthread_join(looker, NULL);
    end_host(host);
}
