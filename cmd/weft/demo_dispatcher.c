#include "demo_dispatcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "terminal.h"

#define STOP_WAIT_NS 1000000000

enum {
    TURNS = 1000,      /* turns that the small group takes */
    BUSY_FIBERS = 300, /* fibers of the large group */
    MOST_PARKED = 100000,
    BATCH = 4096,        /* frames spawned between two yields */
    CONTROL_BLOCK = 128, /* bytes, of every fiber */
};

/* --- three groups: each large one alone would keep the thread busy ---------------------------- */

struct demo {
    weft_dispatcher *dispatcher;
    weft_group *busy, *pingpong, *small;
    weft_cond turn[2]; /* of the ping-pong group */
    bool over;
};

/* Always ready to run. */
struct greedy {
    weft_frame frame;
    struct demo *demo;
};

static enum weft_step run_forever(weft_frame *f, struct weft_got got)
{
    struct greedy *self = (struct greedy *)f;
    (void)got;
    return self->demo->over ? weft_frame_return(f, NULL)
                            : weft_frame_yield(f, WEFT_THEN(run_forever));
}

static const struct weft_frame_kind greedy = {.name = "greedy", .start = run_forever};

/* Two of these wake one another, forever. */
struct player {
    weft_frame frame;
    struct weft_wait wait;
    struct demo *demo;
    int side;
};

static enum weft_step hit(weft_frame *f, struct weft_got got)
{
    struct player *self = (struct player *)f;
    struct demo *demo = self->demo;
    (void)got;
    weft_cond_signal(&demo->turn[1 - self->side]);
    return demo->over ? weft_frame_return(f, NULL)
                      : weft_frame_await_cond(f, &self->wait, &demo->turn[self->side], WEFT_FOREVER,
                                              WEFT_THEN(hit));
}

static const struct weft_frame_kind player = {.name = "player", .start = hit};

/* The smallest group still gets its turns. Its fiber has a stack, like ordinary code. */
static void *take_group_turns(void *arg)
{
    struct demo *demo = arg;
    for (int i = 0; i < TURNS; i++) {
        weft_yield();
    }
    demo->over = true;
    return NULL;
}

static int spawn_all(struct demo *demo, struct greedy *busy, struct player *pingpong)
{
    int err = 0;
    for (int i = 0; i < BUSY_FIBERS && !err; i++) {
        busy[i].demo = demo;
        weft_frame_init(&busy[i].frame, &greedy);
        err = weft_group_spawn_frame(demo->busy, NULL, &busy[i].frame, NULL);
    }
    for (int i = 0; i < 2 && !err; i++) {
        pingpong[i].demo = demo;
        pingpong[i].side = i;
        weft_cond_init(&demo->turn[i], &(struct weft_sync_opts){.group = demo->pingpong});
        weft_frame_init(&pingpong[i].frame, &player);
        err = weft_group_spawn_frame(demo->pingpong, NULL, &pingpong[i].frame, NULL);
    }
    return err ? err : weft_group_spawn(demo->small, NULL, take_group_turns, demo, NULL);
}

static void show_group(const weft_group *group, const char *what)
{
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    terminal_fact(weft_group_name(group), "%s turns, %s runs: %s", terminal_number(stats.turns),
                  terminal_number(stats.executed), what);
}

/* Stops the groups, so that they finish when their fibers have ended, and runs the dispatcher. */
static int run_groups(weft_dispatcher *dispatcher, weft_group *const *groups, int n)
{
    for (int i = 0; i < n; i++) {
        weft_group_stop(groups[i]);
    }
    return weft_dispatcher_run(dispatcher);
}

static int show_turns(struct demo *demo)
{
    static struct greedy busy[BUSY_FIBERS];
    static struct player pingpong[2];
    weft_group *const groups[] = {demo->busy, demo->pingpong, demo->small};
    int err = spawn_all(demo, busy, pingpong);
    /* Then no fiber need start; the stop cancels fibers that wait in vain. */
    demo->over = err != 0;
    err = err ? err : run_groups(demo->dispatcher, groups, 3);
    if (err) {
        terminal_warn("a group: %s", weft_strerror(err));
        return 1;
    }
    show_group(demo->busy, "300 fibers that are always ready");
    show_group(demo->pingpong, "2 fibers that wake one another");
    show_group(demo->small, "1 fiber, which still gets its turns");
    return 0;
}

/* --- fibers without a stack ------------------------------------------------------------------- */

struct parking {
    weft_group *group;
    weft_event *bell;
    struct parked *parked_frames;
    long wanted, waiting, finished;
    int failed;
};

struct parked {
    weft_frame frame;
    struct weft_wait wait;
    struct parking *parking;
};

static enum weft_step finish(weft_frame *f, struct weft_got got)
{
    (void)got;
    ((struct parked *)f)->parking->finished++;
    return weft_frame_return(f, NULL);
}

static enum weft_step park(weft_frame *f, struct weft_got got)
{
    struct parked *self = (struct parked *)f;
    (void)got;
    self->parking->waiting++;
    return weft_frame_await_event(f, &self->wait, self->parking->bell, WEFT_FOREVER,
                                  WEFT_THEN(finish));
}

static const struct weft_frame_kind parked = {.name = "parked", .start = park};

/* Runs in the group, so that nothing changes while it inspects. Spawns the frames, waits until all
 * wait, dumps some, and wakes them. */
static void *park_and_wake(void *arg)
{
    struct parking *parking = arg;
    struct weft_member_opts opts = {.detached = true};
    long spawned = 0;
    int err = 0;
    int64_t start = weft_now();
    while (spawned < parking->wanted && !err) {
        struct parked *g = &parking->parked_frames[spawned];
        g->parking = parking;
        weft_frame_init(&g->frame, &parked);
        err = weft_group_spawn_frame(parking->group, NULL, &g->frame, &opts);
        spawned += !err;
        if (spawned % BATCH == 0) {
            weft_yield();
        }
    }
    while (parking->waiting < spawned) {
        weft_yield();
    }
    double waiting = (double)(weft_now() - start);
    struct weft_group_stats stats;
    do { /* the statistics are those of the end of the group's last turn */
        weft_yield();
        weft_group_stats(parking->group, &stats);
    } while (stats.fibers <= (uint64_t)spawned); /* including this fiber */
    if (err) {
        terminal_warn("weft_group_spawn_frame: %s; continuing with %ld", weft_strerror(err),
                      spawned);
    }
    fflush(stdout);
    int failed = weft_group_dump(parking->group, stdout,
                                 &(struct weft_dump_opts){.max_shown = 2, .no_frames = true});
    if (failed) {
        terminal_warn("weft_group_dump: %s", weft_strerror(failed));
    }
    parking->failed |=
        failed && failed != -ENOMEM; /* the parked fibers may rightly use all memory */
    start = weft_now();
    weft_event_set(parking->bell);
    while (parking->finished < spawned) {
        weft_yield();
    }
    double left = (double)(weft_now() - start);
    terminal_fact("frame fibers",
                  "%s without a stack: %zu bytes each of frame, %d of control block",
                  terminal_number((uint64_t)spawned), sizeof(struct parked), CONTROL_BLOCK);
    terminal_fact("cost", "%.0f ns to spawn and park one, %.0f ns to wake and end it",
                  waiting / (double)(spawned ? spawned : 1),
                  left / (double)(spawned ? spawned : 1));
    return NULL;
}

static int show_parking(weft_dispatcher *dispatcher, long wanted)
{
    struct parking parking = {.wanted = wanted < MOST_PARKED ? wanted : MOST_PARKED};
    weft_event bell;
    while (
        !(parking.parked_frames = calloc((size_t)parking.wanted, sizeof *parking.parked_frames)) &&
        parking.wanted > 1) {
        parking.wanted /= 2;
    }
    int err = parking.parked_frames
                  ? weft_group_create(dispatcher, &parking.group,
                                      &(struct weft_group_opts){.name = "parking"})
                  : -ENOMEM;
    if (!err) {
        weft_event_init(&bell, &(struct weft_sync_opts){.name = "bell", .group = parking.group});
        parking.bell = &bell;
        err = weft_group_spawn(parking.group, NULL, park_and_wake, &parking,
                               &(struct weft_member_opts){.name = "host"});
        err = err ? err : run_groups(dispatcher, &parking.group, 1);
    }
    if (err) {
        terminal_warn("the group parking: %s", weft_strerror(err));
    }
    free(parking.parked_frames);
    return err || parking.failed || parking.finished != parking.waiting ? 1 : 0;
}

/* --- both ------------------------------------------------------------------------------------- */

int demo_dispatcher(int number, long fibers)
{
    static struct demo demo;
    terminal_heading("%d. A dispatcher: one thread, groups in fair rounds, fibers without a stack",
                     number);
    struct weft_dispatcher_opts opts = {
        .caller = true,
        .hog_ns = -1, /* one call wakes 100,000 */
        .on_overdue = WEFT_OVERDUE_CANCEL,
    };
    int err = weft_dispatcher_create(&demo.dispatcher, &opts);
    if (err) {
        terminal_warn("weft_dispatcher_create: %s", weft_strerror(err));
        return 1;
    }
    err = weft_group_create(demo.dispatcher, &demo.busy, &(struct weft_group_opts){.name = "busy"});
    err = err ? err
              : weft_group_create(demo.dispatcher, &demo.pingpong,
                                  &(struct weft_group_opts){.name = "pingpong"});
    err = err ? err
              : weft_group_create(demo.dispatcher, &demo.small,
                                  &(struct weft_group_opts){.name = "small"});
    int failed = 1;
    if (err) {
        terminal_warn("a group: %s", weft_strerror(err));
    } else {
        failed = show_turns(&demo) | show_parking(demo.dispatcher, fibers);
    }
    weft_dispatcher_stop(demo.dispatcher, NULL, 0, weft_after(STOP_WAIT_NS));
    weft_dispatcher_destroy(demo.dispatcher);
    return failed;
}
