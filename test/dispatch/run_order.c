/* labels: valgrind */
/* The order in which fibers run: <weft/dispatcher.h>, sched/group_scheduler.h. Each with stackful
 * and stackless fibers, and mixed. */
#include <weft/sync.h>

#include "dispatch/dispatcher.h"
#include "dispatch/fixture.h"

static void run_with_all_kinds(weft_fn fn, const char *expected)
{
    for (enum kind kind = STACK; kind <= MIXED; kind++) {
        forget();
        run_in_group(fn, &kind);
        CHECK_STR(ran, expected);
    }
}

static uint64_t round_now(void)
{
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(weft_dispatcher_self(), &stats);
    return stats.rounds;
}

static void *notes_its_name(void *arg)
{
    note(arg);
    return NULL;
}

static void *yields_twice(void *arg)
{
    for (int i = 0; i < 3; i++) {
        note(arg);
        weft_yield();
    }
    return NULL;
}

static void *starts_three(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_spawn(NULL, yields_twice, NAME("a"), NULL), 0);
    CHECK_EQ(weft_spawn(NULL, yields_twice, NAME("b"), NULL), 0);
    CHECK_EQ(weft_spawn(NULL, notes_its_name, NAME("c"), NULL), 0);
    note("0");
    return NULL;
}

TEST(fibers_start_in_order_and_yield_goes_to_back)
{
    forget();
    run_in_group(starts_three, NULL);
    CHECK_STR(ran, "0abcabab");
}

/* --- wakes -------------------------------------------------------------------------------- */

static void spawn_abc(struct party *p, enum kind kind, int times, unsigned signals)
{
    static const char *const names[] = {"A", "B", "C"};
    for (int i = 0; i < 3; i++) {
        spawn_party(weft_group_self(), &p[i], kind, names[i], times, signals);
    }
    weft_yield(); /* they wait now */
}

static void *wakes_front(void *arg)
{
    struct party p[3];
    spawn_abc(p, *(enum kind *)arg, 1, 1);
    weft_event_set(&p[0].event);
    weft_event_set(&p[1].event);
    weft_event_set(&p[2].event);
    note("0");
    weft_yield();
    note("1");
    return NULL;
}

TEST(front_wakes_run_last_first)
{
    run_with_all_kinds(wakes_front, "0CBA1");
}

/* As above, after the budget is used up: the fibers go to the next turn, in the order in which
 * front insertion would have put them. */
static void *wakes_front_without_budget(void *arg)
{
    struct party p[3];
    uint64_t round = round_now();
    spawn_abc(p, *(enum kind *)arg, 2, 1);
    CHECK_EQ(round_now(), round + 1); /* this fiber's own start counted as a wake */
    for (int i = 0; i < 3; i++) {
        weft_event_set(&p[i].event);
    }
    weft_yield();
    note(" ");
    for (int i = 0; i < 3; i++) {
        weft_event_set(&p[i].event);
    }
    round = round_now();
    weft_yield();
    CHECK_EQ(round_now(), round + 1);
    note("0");
    return NULL;
}

TEST(front_wakes_without_budget_start_next_turn_in_order)
{
    run_with_all_kinds(wakes_front_without_budget, "CBA CBA0");
}

struct all {
    weft_event event;
    enum kind kind;
};

struct listener {
    weft_frame frame; /* first */
    struct weft_wait wait;
    const char *name;
    weft_event *event;
};

static void *listens(void *arg)
{
    struct listener *l = arg;
    CHECK_EQ(weft_event_wait(l->event, WEFT_FOREVER), 0);
    note(l->name);
    return NULL;
}

static enum weft_step has_heard(weft_frame *f, struct weft_got got)
{
    (void)got;
    note(((struct listener *)f)->name);
    return weft_frame_return(f, NULL);
}

static enum weft_step begins_to_listen(weft_frame *f, struct weft_got got)
{
    struct listener *l = (struct listener *)f;
    (void)got;
    return weft_frame_await_event(f, &l->wait, l->event, WEFT_FOREVER, WEFT_THEN(has_heard));
}

static const struct weft_frame_kind listening = {.name = "listening", .start = begins_to_listen};

static void *wakes_all(void *arg)
{
    enum kind kind = *(enum kind *)arg;
    weft_event event;
    struct listener l[4];
    weft_event_init(&event, &(struct weft_sync_opts){.group = weft_group_self()});
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"A", "B", "C", "D"};
        l[i].name = names[i];
        l[i].event = &event;
        if (kind == FRAME || (kind == MIXED && i % 2)) {
            weft_frame_init(&l[i].frame, &listening);
            CHECK_EQ(weft_group_spawn_frame(weft_group_self(), NULL, &l[i].frame, NULL), 0);
        } else {
            CHECK_EQ(weft_spawn(NULL, listens, &l[i], NULL), 0);
        }
    }
    weft_yield();
    CHECK_EQ(weft_spawn(NULL, notes_its_name, NAME("x"), NULL), 0); /* ready before them */
    weft_event_set(&event);
    weft_yield();
    note("0");
    return NULL;
}

TEST(wake_all_keeps_order_and_precedes_ready_fibers)
{
    run_with_all_kinds(wakes_all, "ABCDx0");
}

/* Some of the fibers have no budget left: both parts keep their order. */
static void *wakes_all_in_their_round(void *arg)
{
    enum kind kind = *(enum kind *)arg;
    weft_event event;
    struct listener l[3];
    weft_event_init(&event, NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"A", "B", "C"};
        struct weft_member_opts opts = {.signals_per_round = i == 1 ? 2 : 1};
        l[i].name = names[i];
        l[i].event = &event;
        if (kind == FRAME || (kind == MIXED && i % 2)) {
            weft_frame_init(&l[i].frame, &listening);
            CHECK_EQ(weft_group_spawn_frame(weft_group_self(), NULL, &l[i].frame, &opts), 0);
        } else {
            CHECK_EQ(weft_group_spawn(weft_group_self(), NULL, listens, &l[i], &opts), 0);
        }
    }
    weft_event go;
    weft_event_init(&go, NULL);
    struct party last;
    spawn_party(weft_group_self(), &last, kind, "-", 1, 2);
    last.tells = &go;
    weft_event_set(&last.event); /* does not wait, and wakes this one in the round of its start */
    CHECK_EQ(weft_event_wait(&go, WEFT_FOREVER), 0);
    weft_event_set(&event);
    note("0");
    weft_yield();
    note("1");
    return NULL;
}

TEST(wake_all_defers_fibers_without_budget_to_next_turn)
{
    run_with_all_kinds(wakes_all_in_their_round, "-0BAC1");
}

/* --- the three queues ------------------------------------------------------------------------- */

static void *sleeps_until(void *arg)
{
    weft_sleep(*(int64_t *)arg);
    note("T");
    return NULL;
}

static void notes_post(void *arg)
{
    note(arg);
}

/* In one round: A is woken once more than its budget allows, this fiber yields, a timer becomes
 * due, and a function is posted. */
static void *fills_all_queues(void *arg)
{
    struct party a;
    weft_event back;
    int64_t until = weft_after(50 * MS); /* in the next round, and not before */
    weft_event_init(&back, NULL);
    spawn_party(weft_group_self(), &a, *(enum kind *)arg, "A", 2, 1);
    CHECK_EQ(weft_spawn(NULL, sleeps_until, &until, NULL), 0);
    weft_yield();
    a.tells = &back;
    weft_event_set(&a.event);
    CHECK_EQ(weft_event_wait(&back, WEFT_FOREVER), 0); /* it has run, and waits again */
    a.tells = NULL;
    weft_event_set(&a.event);
    note("0");
    while (weft_now() < until + MS) {
    }
    ((struct weft_dispatcher *)weft_dispatcher_self())->rounds.rounds_to_poll =
        1; /* the next round reads the clock */
    weft_yield();
    note("1");
    return NULL;
}

TEST(next_turn_runs_front_queue_then_timers_then_back_queue)
{
    run_with_all_kinds(fills_all_queues, "A0AT1");
}

static void *posts_to_itself(void *arg)
{
    CHECK_EQ(weft_group_post(weft_group_self(), notes_post, NAME("!")), 0);
    note(arg);
    return NULL;
}

TEST(post_from_inside_group_is_called_immediately)
{
    forget();
    run_in_group(posts_to_itself, NAME("0"));
    CHECK_STR(ran, "!0");
}

/* --- budgets ---------------------------------------------------------------------------------- */

struct budget {
    unsigned signals;
    enum kind kind;
    long per_round[4];
};

static void *counts_rounds(void *arg)
{
    long *round = arg;
    while (*round < 4) {
        ++*round;
        weft_yield();
    }
    return NULL;
}

/* The party and this fiber wake each other: how often does the party run between two turns of a
 * fiber that yields? */
static void *plays(void *arg)
{
    struct budget *b = arg;
    struct party a;
    weft_event back;
    long round = 0;
    weft_event_init(&back, NULL);
    spawn_party(weft_group_self(), &a, b->kind, "", 1 << 30, b->signals);
    CHECK_EQ(weft_spawn(NULL, counts_rounds, &round, NULL), 0);
    weft_yield();
    a.tells = &back;
    while (round < 4) {
        weft_event_reset(&back);
        weft_event_set(&a.event);
        CHECK_EQ(weft_event_wait(&back, WEFT_FOREVER), 0);
        b->per_round[round - (round == 4)]++;
    }
    a.left = 1;
    weft_event_set(&a.event);
    weft_yield(); /* it ends */
    weft_yield();
    return NULL;
}

/* A turn that begins with the party, promoted from the last round, gives it one run more than its
 * wake budget. Its partner may be woken 65535 times, and is then promoted itself. */
TEST(budget_limits_wakes_per_round)
{
    static const unsigned signals[] = {1, 2, 10, 65535};
    for (enum kind kind = STACK; kind <= FRAME; kind++) {
        for (int i = 0; i < 4; i++) {
            struct budget b = {.signals = signals[i], .kind = kind};
            run_in_group(plays, &b);
            CHECK(b.per_round[2] == signals[i] + 1 || b.per_round[2] == signals[i]);
            CHECK(b.per_round[2] + b.per_round[3] >= 2L * signals[i]);
        }
    }
}

TEST(budget_above_16_bits_is_rejected)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    struct weft_member_opts opts = {.signals_per_round = 65536};
    weft_frame frame;
    weft_frame_init(&frame, &listening);
    CHECK_EQ(weft_group_spawn(group, NULL, notes_its_name, NULL, &opts), -EINVAL);
    CHECK_EQ(weft_group_spawn_frame(group, NULL, &frame, &opts), -EINVAL);
    stop_dispatcher(d);
}

struct started {
    enum kind kind;
    unsigned signals;
};

static void *sets(void *arg)
{
    note("s");
    weft_event_set(arg);
    return NULL;
}

/* A is woken in the round in which it starts: does it run before c, which is ready after the waking
 * fiber? */
static void *wakes_in_the_round_of_the_start(void *arg)
{
    const struct started *started = arg;
    struct party a;
    spawn_party(weft_group_self(), &a, started->kind, "A", 1, started->signals);
    CHECK_EQ(weft_spawn(NULL, sets, &a.event, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, notes_its_name, NAME("c"), NULL), 0);
    weft_yield();
    weft_yield();
    return NULL;
}

TEST(fiber_start_costs_one_of_budget)
{
    for (enum kind kind = STACK; kind <= FRAME; kind++) {
        forget();
        run_in_group(wakes_in_the_round_of_the_start, &(struct started){kind, 1});
        CHECK_STR(ran, "scA");
        forget();
        run_in_group(wakes_in_the_round_of_the_start, &(struct started){kind, 2});
        CHECK_STR(ran, "sAc");
    }
}

/* --- groups ----------------------------------------------------------------------------------- */

struct world {
    weft_dispatcher *d;
    weft_group *groups[3];
    struct party parties[3];
    enum kind kind;
    uint64_t round[3];
};

static void open_world(struct world *w, enum kind kind, unsigned slice)
{
    static const char *const names[] = {"x", "y", "z"};
    *w = (struct world){.kind = kind};
    CHECK_EQ(weft_dispatcher_create(&w->d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    for (int i = 0; i < 3; i++) {
        struct weft_group_opts opts = {.name = names[i], .slice = slice};
        CHECK_EQ(weft_group_create(w->d, &w->groups[i], &opts), 0);
    }
    forget();
}

static void close_world(struct world *w)
{
    for (int i = 0; i < 3; i++) {
        weft_group_stop(w->groups[i]);
    }
    CHECK_EQ(weft_dispatcher_run(w->d), 0);
    CHECK_EQ(weft_dispatcher_stop(w->d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(w->d);
}

/* In group x: wakes the parties of the other groups in the order z, y; their groups run in that
 * order, in the next round. */
static void *wakes_other_groups(void *arg)
{
    struct world *w = arg;
    weft_yield(); /* they wait */
    weft_yield();
    weft_event_set(&w->parties[2].event);
    weft_event_set(&w->parties[1].event);
    uint64_t round = round_now();
    note("0");
    weft_yield();
    CHECK_EQ(round_now(), round + 1);
    note("1"); /* x was queued again at the end of its turn, after them */
    return NULL;
}

TEST(groups_run_next_round_in_order_of_becoming_ready)
{
    for (enum kind kind = STACK; kind <= MIXED; kind++) {
        struct world w;
        open_world(&w, kind, 0);
        CHECK_EQ(weft_group_spawn(w.groups[0], NULL, wakes_other_groups, &w, NULL), 0);
        spawn_party(w.groups[1], &w.parties[1], kind, "y", 1, 1);
        spawn_party(w.groups[2], &w.parties[2], kind, "z", 1, 1);
        close_world(&w);
        CHECK_STR(ran, "0zy1");
    }
}

static void *notes_and_yields(void *arg)
{
    for (int i = 0; i < 3; i++) {
        note(arg);
        weft_yield();
    }
    return NULL;
}

static enum weft_step notes_step(weft_frame *f, struct weft_got got)
{
    (void)got;
    note(((struct listener *)f)->name);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind noting = {.name = "noting", .start = notes_step};

TEST(slice_ends_turn_and_rest_waits_for_next_round)
{
    static const char *const names[] = {"1", "2", "3", "4", "5"};
    for (enum kind kind = STACK; kind <= MIXED; kind++) {
        struct world w;
        struct listener l[5];
        open_world(&w, kind, 2);
        for (int i = 0; i < 5; i++) {
            l[i].name = names[i];
            if (kind == FRAME || (kind == MIXED && i % 2)) {
                weft_frame_init(&l[i].frame, &noting);
                CHECK_EQ(weft_group_spawn_frame(w.groups[0], NULL, &l[i].frame, NULL), 0);
            } else {
                CHECK_EQ(weft_group_spawn(w.groups[0], NULL, notes_its_name, NAME(names[i]), NULL),
                         0);
            }
        }
        CHECK_EQ(weft_group_spawn(w.groups[1], NULL, notes_and_yields, NAME("y"), NULL), 0);
        close_world(&w);
        CHECK_STR(ran, "12y34y5y");
    }
}

/* --- ends ------------------------------------------------------------------------------------- */

static void *joins(void *arg)
{
    CHECK_EQ(weft_join(*(weft_fiber *)arg, NULL, WEFT_FOREVER), 0);
    note("j");
    return NULL;
}

static void *ends(void *arg)
{
    (void)arg;
    weft_yield();
    note("e");
    return NULL;
}

static void *starts_a_joiner(void *arg)
{
    weft_fiber fiber;
    (void)arg;
    CHECK_EQ(weft_spawn(&fiber, ends, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, joins, &fiber, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_spawn(NULL, notes_its_name, NAME("r"), NULL), 0); /* ready before e ends */
    weft_yield();
    return NULL;
}

TEST(joiners_wake_behind_ready_fibers)
{
    forget();
    run_in_group(starts_a_joiner, NULL);
    CHECK_STR(ran, "erj");
}
