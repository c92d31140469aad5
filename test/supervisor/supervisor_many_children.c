/* Supervisors with many children, inspected while they run. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"
#include "supervisor/supervisor.h"

enum { MANY = 2000 };

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_MESSAGE) {
            weft_out_exit(out, -EIO, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind kind = {.name = "one-of-many", .step = step};
static const struct weft_child_spec pattern = {.kind = &kind};
static const struct weft_supervisor_opts crowd = {.name = "crowd",
                                                  .strategy = WEFT_DYNAMIC,
                                                  .children = &pattern,
                                                  .count = 1,
                                                  .restarts = WEFT_RESTARTS_UNLIMITED,
                                                  .backoff_ns = INT64_MAX / 4,
                                                  .backoff_max_ns = INT64_MAX / 4};

static weft_host *host;
static weft_pid children[MANY];

static weft_pid add(weft_pid supervisor)
{
    weft_pid pid;
    CHECK_EQ(weft_supervisor_add(supervisor, &pid, NULL, WEFT_FOREVER), 0);
    return pid;
}

static weft_pid start_crowd(int count)
{
    weft_pid pid;
    CHECK_EQ(weft_supervisor_start(host, &pid, &crowd), 0);
    for (int i = 0; i < count; i++) {
        children[i] = add(pid);
    }
    return pid;
}

static void stop(weft_pid supervisor)
{
    CHECK_EQ(weft_actor_cancel(supervisor, NULL), 0);
    int err = weft_actor_join(supervisor, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH); /* it ended before the join */
}

static void begin(void)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- visits --------------------------------------------------------------------------------- */

struct visit {
    int teams, seats, absents;
    uint64_t absent; /* number of the last child */
    uint8_t *seen;   /* by child */
    void (*meanwhile)(struct visit *visit, const struct weft__visited_child *visited);
    weft_pid supervisor, other;
};

static int child_of(weft_pid pid)
{
    int i = 0;
    while (i < MANY && !weft_pid_equal(children[i], pid)) {
        i++;
    }
    return i;
}

static void on_team(weft_pid supervisor, const struct weft__supervisor_info *supervisor_info,
                    void *arg)
{
    struct visit *visit = arg;
    CHECK_STR(supervisor_info->name, "crowd");
    CHECK(!weft_pid_is_none(supervisor));
    visit->teams++;
}

static void on_seat(const struct weft__visited_child *visited, void *arg)
{
    struct visit *visit = arg;
    visit->seats++;
    if (weft_pid_is_none(visited->pid)) {
        CHECK_EQ(visited->error, -EIO);
        CHECK(visit->absents == 0 || visit->absent == visited->number);
        visit->absent = visited->number;
        visit->absents++;
    } else if (visit->seen) {
        int i = child_of(visited->pid);
        visit->seen[i < MANY ? i : 0] += i < MANY;
    }
    if (visit->meanwhile) {
        visit->meanwhile(visit, visited);
    }
}

static void visit_all(struct visit *visit)
{
    weft__supervisors_visit(host, &(struct weft__supervisor_visitor){.supervisor_info = on_team,
                                                                     .child_info = on_seat,
                                                                     .arg = visit});
}

/* Both need the supervisor's lock and one of the supervisor's steps. */
static void come_and_go(struct visit *visit, const struct weft__visited_child *visited)
{
    (void)visited;
    if (visit->seats % 100 == 0) {
        CHECK_EQ(
            weft_supervisor_remove(visit->supervisor, children[visit->seats / 100], WEFT_FOREVER),
            0);
        add(visit->supervisor);
    }
}

TEST(child_iteration_sees_all_staying_children_during_changes)
{
    begin();
    struct visit visit = {.meanwhile = come_and_go, .supervisor = start_crowd(MANY)};
    visit.seen = calloc(MANY, 1);
    visit_all(&visit);
    CHECK_EQ(visit.teams, 1);
    CHECK(visit.seats >= MANY - MANY / 100);
    for (int i = MANY / 50; i < MANY; i++) { /* all children that existed the whole time */
        CHECK(visit.seen[i] > 0);
    }
    free(visit.seen);
    stop(visit.supervisor);
    end();
}

/* The last child is visited first, and then moves into the place of a child not visited yet. */
static void move_last(struct visit *visit, const struct weft__visited_child *visited)
{
    (void)visited;
    if (visit->seats == 50) {
        CHECK_EQ(weft_supervisor_remove(visit->supervisor, children[3], WEFT_FOREVER), 0);
    }
}

TEST(child_visited_twice_keeps_its_index)
{
    struct weft_child_info info[200];
    begin();
    struct visit visit = {.meanwhile = move_last, .supervisor = start_crowd(200)};
    CHECK_EQ(weft_actor_send(children[199], "crash", 0, NULL, WEFT_BY_POLICY), 0);
    do {
        sched_yield();
        CHECK_EQ(weft_supervisor_children(visit.supervisor, info, 200), 200);
    } while (info[199].state != WEFT_CHILD_WAITING);
    visit_all(&visit);
    CHECK_EQ(visit.absents, 2);
    CHECK_EQ(visit.absent, 199);
    stop(visit.supervisor);
    end();
}

/* During the visit of the first child, which is the one started last, that child or the next
 * ends. */
static void end_another(struct visit *visit, const struct weft__visited_child *visited)
{
    (void)visited;
    if (visit->seats == 70) {
        stop(visit->other);
    }
}

TEST(supervisor_exit_during_iteration_is_safe)
{
    for (int next = 0; next < 2; next++) {
        begin();
        weft_pid pids[3];
        for (int i = 0; i < 3; i++) {
            pids[i] = start_crowd(100);
        }
        struct visit visit = {.meanwhile = end_another, .other = pids[2 - next]};
        visit_all(&visit);
        CHECK_EQ(visit.teams, next ? 2 : 3);
        CHECK(next ? visit.seats == 200 : visit.seats >= 270 && visit.seats < 300);
        stop(pids[0]);
        stop(pids[next ? 2 : 1]);
        end();
    }
}

TEST(supervisor_iteration_is_limited_to_host)
{
    begin();
    weft_host *ours = host;
    weft_pid pid = start_crowd(10);
    begin();
    weft_pid others[300];
    for (int i = 0; i < 300; i++) {
        others[i] = start_crowd(0);
    }
    struct visit visit = {0};
    visit_all(&visit);
    CHECK_EQ(visit.teams, 300);
    CHECK_EQ(visit.seats, 0);
    weft_host *theirs = host;
    host = ours;
    visit = (struct visit){0};
    visit_all(&visit);
    CHECK_EQ(visit.teams, 1);
    CHECK_EQ(visit.seats, 10);
    host = theirs;
    for (int i = 0; i < 300; i++) {
        stop(others[i]);
    }
    end();
    host = ours;
    stop(pid);
    end();
}

/* --- pages ---------------------------------------------------------------------------------- */

static atomic_bool enough;

/* Children of the first half end, children of the second half stay; new children come. */
static void *change(void *arg)
{
    for (int i = 0; i < MANY / 2; i++) {
        CHECK_EQ(weft_supervisor_remove(*(weft_pid *)arg, children[i], WEFT_FOREVER), 0);
        if (i % 2) {
            add(*(weft_pid *)arg);
        }
    }
    atomic_store(&enough, true);
    return NULL;
}

static int times(const char *text, const char *what)
{
    int n = 0;
    while ((text = strstr(text, what))) {
        text += strlen(what);
        n++;
    }
    return n;
}

static char *page(void)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    CHECK(out);
    CHECK_EQ(weft_actor_dump(host, out, WEFT_DUMP_TEXT, 0), 0);
    fclose(out);
    return text;
}

TEST(snapshot_during_changes_lists_every_staying_child_once)
{
    pthread_t changer;
    char pid[64];
    begin();
    weft_pid supervisor = start_crowd(MANY);
    atomic_store(&enough, false);
    CHECK_EQ(pthread_create(&changer, NULL, change, &supervisor), 0);
    bool last;
    do {
        last = atomic_load(&enough);
        char *text = page();
        CHECK_EQ(times(text, " supervisor=crowd "), 1);
        CHECK(times(text, " child=- running ") >= MANY / 2);
        for (int i = MANY / 2; i < MANY; i += MANY / 20) {
            weft_pid_format(children[i], pid, sizeof pid);
            strcat(pid, " one-of-many ");
            CHECK_EQ(times(text, pid), 1);
        }
        free(text);
    } while (!last);
    pthread_join(changer, NULL);
    stop(supervisor);
    end();
}

TEST(snapshot_lists_waiting_children_in_order)
{
    begin();
    weft_pid supervisor = start_crowd(500);
    for (int i = 0; i < 500; i += 5) {
        CHECK_EQ(weft_actor_send(children[i], "crash", 0, NULL, WEFT_BY_POLICY), 0);
    }
    char *text;
    for (;; free(text)) {
        text = page();
        if (times(text, " down=100 ")) {
            break;
        }
    }
    CHECK_EQ(times(text, "    - child=- waiting restarts=0 error=-5\n"), 100);
    CHECK_EQ(times(text, " child=- running "), 400);
    free(text);
    stop(supervisor);
    end();
}

TEST(supervisor_dump_of_many_children_is_complete)
{
    begin();
    weft_pid supervisor = start_crowd(MANY);
    int length = weft_supervisor_format(supervisor, NULL, 0);
    char *text = malloc((size_t)length + 1);
    CHECK_EQ(weft_supervisor_format(supervisor, text, (size_t)length + 1), length);
    CHECK_EQ(times(text, "\n"), MANY + 1);
    CHECK_EQ(times(text, " running\n"), MANY);
    free(text);
    stop(supervisor);
    CHECK_EQ(weft_supervisor_format(supervisor, NULL, 0), -ESRCH);
    end();
}
