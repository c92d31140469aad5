/* labels: valgrind */
/* Which fibers go before the ready fibers of a group, and which after them: fibers that are started
 * at the front or the back, and fibers that are woken by handle (interrupt, cancel, unpark), from
 * the dispatcher's thread and from another. Each with stackful and stackless fibers, and mixed. */
#include <pthread.h>

#include <weft/sync.h>

#include "dispatch/fixture.h"

static void run_with_all_kinds(weft_fn fn, const char *expected)
{
    for (enum kind kind = STACK; kind <= MIXED; kind++) {
        forget();
        run_in_group(fn, &kind);
        CHECK_STR(ran, expected);
    }
}

static bool is_frame(enum kind kind)
{
    static unsigned turn;
    return kind == FRAME || (kind == MIXED && turn++ % 2);
}

/* Runs fn on a plain thread, to its end; the group's thread waits meanwhile. */
static void run_elsewhere(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* --- starts --------------------------------------------------------------------------------- */

/* Records its name when it first runs, starts another fiber if asked to, and ends. */
struct newcomer {
    weft_frame frame; /* first */
    const char *name;
    struct newcomer *starts; /* by weft_spawn */
};

static void *comes(void *arg)
{
    struct newcomer *n = arg;
    note(n->name);
    if (n->starts) {
        CHECK_EQ(weft_spawn(NULL, comes, n->starts, NULL), 0);
    }
    return NULL;
}

static enum weft_step comes_step(weft_frame *f, struct weft_got got)
{
    (void)got;
    comes(f);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind coming = {.name = "coming", .start = comes_step};

static void start(weft_group *group, struct newcomer *n, enum kind kind, const char *name,
                  const struct weft_member_opts *opts)
{
    n->name = name;
    if (is_frame(kind)) {
        weft_frame_init(&n->frame, &coming);
        CHECK_EQ(weft_group_spawn_frame(group, NULL, &n->frame, opts), 0);
    } else {
        CHECK_EQ(weft_group_spawn(group, NULL, comes, n, opts), 0);
    }
}

static const struct weft_member_opts at_front = {.front = true};
static const struct weft_member_opts daemon_at_front = {.front = true, .daemon = true};

static void *starts_at_both_ends(void *arg)
{
    enum kind kind = *(enum kind *)arg;
    struct newcomer n[5] = {{.name = NULL}};
    start(weft_group_self(), &n[0], kind, "x", NULL);
    start(weft_group_self(), &n[1], kind, "A", &at_front);
    start(weft_group_self(), &n[2], kind, "y", NULL);
    start(weft_group_self(), &n[3], kind, "B", &daemon_at_front);
    start(weft_group_self(), &n[4], kind, "C", &at_front);
    note("0");
    weft_yield();
    note("1");
    return NULL;
}

TEST(front_spawns_run_before_ready_fibers_last_first)
{
    run_with_all_kinds(starts_at_both_ends, "0CBAxy1");
}

static void *starts_into_an_empty_queue(void *arg)
{
    struct newcomer n[2] = {{.name = NULL}};
    start(weft_group_self(), &n[0], *(enum kind *)arg, "A", &at_front);
    start(weft_group_self(), &n[1], *(enum kind *)arg, "x", NULL); /* after it */
    weft_yield();
    note("1");
    return NULL;
}

TEST(front_spawn_into_empty_queue_runs_first)
{
    run_with_all_kinds(starts_into_an_empty_queue, "Ax1");
}

/* A wake by an object goes to the front as well: the later one is first. */
static void *starts_and_wakes(void *arg)
{
    enum kind kind = *(enum kind *)arg;
    struct newcomer n[3] = {{.name = NULL}};
    struct party p;
    spawn_party(weft_group_self(), &p, kind, "P", 1, 1);
    weft_yield(); /* it waits now */
    start(weft_group_self(), &n[0], kind, "x", NULL);
    start(weft_group_self(), &n[1], kind, "A", &at_front);
    weft_event_set(&p.event);
    start(weft_group_self(), &n[2], kind, "B", &at_front);
    weft_yield();
    note("1");
    return NULL;
}

TEST(front_spawns_and_object_wakes_share_one_queue)
{
    run_with_all_kinds(starts_and_wakes, "BPAx1");
}

static void *starts_one_that_starts(void *arg)
{
    struct newcomer n[2] = {{.name = NULL}}, child = {.name = "c"};
    n[1].starts = &child;
    start(weft_group_self(), &n[0], *(enum kind *)arg, "x", NULL);
    start(weft_group_self(), &n[1], *(enum kind *)arg, "A", &at_front);
    weft_yield();
    note("1");
    return NULL;
}

TEST(spawn_by_front_fiber_goes_to_back)
{
    run_with_all_kinds(starts_one_that_starts, "Axc1");
}

/* Woken in the round in which it starts: does it run before c, which is ready, or in the next
 * turn? */
struct budget {
    enum kind kind;
    unsigned signals;
};

static void *wakes_in_the_round_of_the_start(void *arg)
{
    const struct budget *b = arg;
    struct newcomer n[2] = {{.name = NULL}};
    struct party p = {.name = "A", .left = 1};
    weft_event_init(&p.event, NULL);
    struct weft_member_opts opts = {.front = true, .signals_per_round = b->signals};
    start(weft_group_self(), &n[0], STACK, "s", NULL);
    start(weft_group_self(), &n[1], STACK, "c", NULL);
    if (b->kind == FRAME) {
        weft_frame_init(&p.frame, &party_kind);
        CHECK_EQ(weft_group_spawn_frame(weft_group_self(), NULL, &p.frame, &opts), 0);
    } else {
        CHECK_EQ(weft_group_spawn(weft_group_self(), NULL, party_waits, &p, &opts), 0);
    }
    weft_event told;
    weft_event_init(&told, NULL);
    struct party last; /* runs after the others, in the same round */
    spawn_party(weft_group_self(), &last, STACK, "-", 1, 2);
    last.tells = &told;
    weft_event_set(&last.event);
    CHECK_EQ(weft_event_wait(&told, WEFT_FOREVER), 0);
    struct newcomer ready = {.name = NULL};
    start(weft_group_self(), &ready, STACK, "r", NULL);
    weft_event_set(&p.event);
    weft_yield();
    note("1");
    return NULL;
}

TEST(front_spawn_costs_one_of_budget)
{
    for (enum kind kind = STACK; kind <= FRAME; kind++) {
        forget();
        run_in_group(wakes_in_the_round_of_the_start, &(struct budget){kind, 1});
        CHECK_STR(ran, "sc-rA1");
        forget();
        run_in_group(wakes_in_the_round_of_the_start, &(struct budget){kind, 2});
        CHECK_STR(ran, "sc-Ar1");
    }
}

struct sender {
    weft_group *group;
    enum kind kind;
    struct newcomer n[4];
};

static void *starts_from_elsewhere(void *arg)
{
    struct sender *s = arg;
    start(s->group, &s->n[0], s->kind, "x", NULL);
    start(s->group, &s->n[1], s->kind, "A", &at_front);
    start(s->group, &s->n[2], s->kind, "B", &at_front);
    start(s->group, &s->n[3], s->kind, "y", NULL);
    return NULL;
}

static void *has_others_start(void *arg)
{
    struct sender s = {.group = weft_group_self(), .kind = *(enum kind *)arg};
    run_elsewhere(starts_from_elsewhere, &s);
    note("0");
    weft_yield();
    note("1");
    return NULL;
}

TEST(front_spawn_by_other_thread_runs_before_its_batch)
{
    run_with_all_kinds(has_others_start, "0BAxy1");
}

/* --- wakes by handle -------------------------------------------------------------------------- */

/* How a fiber is woken, and the result of its wait. */
struct way {
    int (*wake)(weft_fiber fiber);
    int status;
};

static const struct way ways[] = {
    {weft_fiber_interrupt, -EINTR},
    {weft_cancel, -ECANCELED},
    {weft_fiber_unpark, 0},
};

/* Parks, so that each of the ways wakes it; records its name and ends. */
struct sleeper {
    weft_frame frame; /* first */
    const char *name;
    int status;
    weft_fiber fiber;
};

static void *sleeps(void *arg)
{
    struct sleeper *s = arg;
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), s->status);
    note(s->name);
    return NULL;
}

static enum weft_step has_slept(weft_frame *f, struct weft_got got)
{
    struct sleeper *s = (struct sleeper *)f;
    CHECK_EQ(got.status, s->status);
    note(s->name);
    return weft_frame_return(f, NULL);
}

static enum weft_step was_thrown(weft_frame *f, const weft_error *error)
{
    struct sleeper *s = (struct sleeper *)f;
    CHECK_EQ(weft_error_code(error), s->status);
    note(s->name);
    return weft_frame_return(f, NULL);
}

static enum weft_step sleeps_step(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_park(f, WEFT_FOREVER, WEFT_THEN(has_slept));
}

static const struct weft_frame_kind sleeping = {
    .name = "sleeping", .start = sleeps_step, .handle = was_thrown};

struct bed {
    const struct way *way;
    enum kind kind;
    struct sleeper s[3];
};

static void lay_down(struct bed *bed)
{
    static const char *const names[] = {"A", "B", "C"};
    for (int i = 0; i < 3; i++) {
        struct sleeper *s = &bed->s[i];
        s->name = names[i];
        s->status = bed->way->status;
        if (is_frame(bed->kind)) {
            weft_frame_init(&s->frame, &sleeping);
            CHECK_EQ(weft_group_spawn_frame(weft_group_self(), &s->fiber, &s->frame, NULL), 0);
        } else {
            CHECK_EQ(weft_group_spawn(weft_group_self(), &s->fiber, sleeps, s, NULL), 0);
        }
    }
}

static void *wake_them(void *arg)
{
    struct bed *bed = arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(bed->way->wake(bed->s[i].fiber), 0);
    }
    return NULL;
}

static void join_them(struct bed *bed)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(bed->s[i].fiber, NULL, WEFT_FOREVER), 0);
    }
}

static void run_each_way(weft_fn fn, const char *expected)
{
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        for (enum kind kind = STACK; kind <= MIXED; kind++) {
            struct bed bed = {.way = &ways[way], .kind = kind};
            forget();
            run_in_group(fn, &bed);
            CHECK_STR(ran, expected);
        }
    }
}

static void *wakes_behind(void *arg)
{
    struct bed *bed = arg;
    struct newcomer x = {.name = NULL}, front = {.name = NULL};
    lay_down(bed);
    weft_yield(); /* they sleep now */
    start(weft_group_self(), &x, bed->kind, "x", NULL);
    wake_them(bed);
    start(weft_group_self(), &front, bed->kind, "f", &at_front);
    note("0");
    weft_yield();
    note("1");
    join_them(bed);
    return NULL;
}

TEST(interrupt_cancel_and_unpark_wake_behind_ready_in_order)
{
    run_each_way(wakes_behind, "0fxABC1");
}

static void *yields_and_notes(void *arg)
{
    weft_yield();
    note(arg);
    return NULL;
}

/* Woken in the round of their start, which has used up their budget: they run after a fiber that
 * has yielded before, in the next turn. */
static void *wakes_without_budget(void *arg)
{
    struct bed *bed = arg;
    weft_event told;
    struct party last;
    struct newcomer x = {.name = NULL};
    weft_event_init(&told, NULL);
    CHECK_EQ(weft_spawn(NULL, yields_and_notes, NAME("y"), NULL), 0);
    lay_down(bed);
    spawn_party(weft_group_self(), &last, STACK, "-", 1, 2);
    last.tells = &told;
    weft_event_set(&last.event);
    CHECK_EQ(weft_event_wait(&told, WEFT_FOREVER), 0); /* they have run, and sleep */
    start(weft_group_self(), &x, STACK, "x", NULL);
    wake_them(bed);
    note("0");
    weft_yield();
    note("1");
    join_them(bed);
    return NULL;
}

TEST(direct_wake_without_budget_goes_behind_yielded_fibers)
{
    run_each_way(wakes_without_budget, "-0xyABC1");
}

static void *is_woken_from_elsewhere(void *arg)
{
    struct bed *bed = arg;
    struct newcomer x = {.name = NULL};
    lay_down(bed);
    weft_yield(); /* they sleep now */
    run_elsewhere(wake_them, bed);
    start(weft_group_self(), &x, bed->kind, "x", NULL); /* ready before the intake is read */
    note("0");
    weft_yield();
    note("1");
    join_them(bed);
    return NULL;
}

TEST(interrupt_cancel_and_unpark_by_other_thread_keep_order)
{
    run_each_way(is_woken_from_elsewhere, "0xABC1");
}
