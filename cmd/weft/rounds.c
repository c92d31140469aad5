#include "rounds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "screen.h"

#define PATIENCE_NS 1000000000

enum {
    TURNS = 1000, /* turns that the small group takes */
    CROWD = 300,  /* fibers of the large group */
    MOST_PARKED = 100000,
    BATCH = 4096,        /* frames spawned between two yields */
    CONTROL_BLOCK = 128, /* bytes, of every fiber */
};

/* --- three groups: each large one alone would keep the thread busy ---------------------------- */

struct stage {
    weft_dispatcher *dispatcher;
    weft_group *crowd, *duel, *small;
    weft_cond turn[2]; /* of the ping-pong group */
    bool over;
};

/* Always ready to run. */
struct greedy {
    weft_frame frame;
    struct stage *stage;
};

static enum weft_step push_forward(weft_frame *f, struct weft_got got)
{
    struct greedy *self = (struct greedy *)f;
    (void)got;
    return self->stage->over ? weft_frame_return(f, NULL)
                             : weft_frame_yield(f, WEFT_THEN(push_forward));
}

static const struct weft_frame_kind greedy = {.name = "greedy", .start = push_forward};

/* Two of these wake one another, forever. */
struct duellist {
    weft_frame frame;
    struct weft_wait wait;
    struct stage *stage;
    int side;
};

static enum weft_step strike(weft_frame *f, struct weft_got got)
{
    struct duellist *self = (struct duellist *)f;
    struct stage *stage = self->stage;
    (void)got;
    weft_cond_signal(&stage->turn[1 - self->side]);
    return stage->over ? weft_frame_return(f, NULL)
                       : weft_frame_await_cond(f, &self->wait, &stage->turn[self->side],
                                               WEFT_FOREVER, WEFT_THEN(strike));
}

static const struct weft_frame_kind duellist = {.name = "duellist", .start = strike};

/* The smallest group still gets its turns. Its fiber has a stack, like ordinary code. */
static void *take_turns(void *arg)
{
    struct stage *stage = arg;
    for (int i = 0; i < TURNS; i++) {
        weft_yield();
    }
    stage->over = true;
    return NULL;
}

static int cast(struct stage *stage, struct greedy *crowd, struct duellist *duel)
{
    int err = 0;
    for (int i = 0; i < CROWD && !err; i++) {
        crowd[i].stage = stage;
        weft_frame_init(&crowd[i].frame, &greedy);
        err = weft_group_spawn_frame(stage->crowd, NULL, &crowd[i].frame, NULL);
    }
    for (int i = 0; i < 2 && !err; i++) {
        duel[i].stage = stage;
        duel[i].side = i;
        weft_cond_init(&stage->turn[i], &(struct weft_sync_opts){.group = stage->duel});
        weft_frame_init(&duel[i].frame, &duellist);
        err = weft_group_spawn_frame(stage->duel, NULL, &duel[i].frame, NULL);
    }
    return err ? err : weft_group_spawn(stage->small, NULL, take_turns, stage, NULL);
}

static void show_group(const weft_group *group, const char *what)
{
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    screen_fact(weft_group_name(group), "%s turns, %s runs: %s", screen_number(stats.turns),
                screen_number(stats.executed), what);
}

/* Stops the groups, so that they finish when their fibers have ended, and runs the dispatcher. */
static int play(weft_dispatcher *dispatcher, weft_group *const *groups, int n)
{
    for (int i = 0; i < n; i++) {
        weft_group_stop(groups[i]);
    }
    return weft_dispatcher_run(dispatcher);
}

static int show_turns(struct stage *stage)
{
    static struct greedy crowd[CROWD];
    static struct duellist duel[2];
    weft_group *const groups[] = {stage->crowd, stage->duel, stage->small};
    int err = cast(stage, crowd, duel);
    /* Then no fiber need start; the stop cancels fibers that wait in vain. */
    stage->over = err != 0;
    err = err ? err : play(stage->dispatcher, groups, 3);
    if (err) {
        screen_warn("a group: %s", weft_strerror(err));
        return 1;
    }
    show_group(stage->crowd, "300 fibers that never rest");
    show_group(stage->duel, "2 fibers that wake one another");
    show_group(stage->small, "1 fiber, which gets its turn all the same");
    return 0;
}

/* --- fibers without a stack ------------------------------------------------------------------- */

struct hall {
    weft_group *group;
    weft_event *bell;
    struct guest *guests;
    long wanted, seated, gone;
    int failed;
};

struct guest {
    weft_frame frame;
    struct weft_wait wait;
    struct hall *hall;
};

static enum weft_step leave(weft_frame *f, struct weft_got got)
{
    (void)got;
    ((struct guest *)f)->hall->gone++;
    return weft_frame_return(f, NULL);
}

static enum weft_step take_seat(weft_frame *f, struct weft_got got)
{
    struct guest *self = (struct guest *)f;
    (void)got;
    self->hall->seated++;
    return weft_frame_await_event(f, &self->wait, self->hall->bell, WEFT_FOREVER, WEFT_THEN(leave));
}

static const struct weft_frame_kind guest = {.name = "guest", .start = take_seat};

/* Runs in the group, so that nothing changes while it inspects. Spawns the frames, waits until all
 * wait, dumps some, and wakes them. */
static void *receive_guests(void *arg)
{
    struct hall *hall = arg;
    struct weft_member_opts opts = {.detached = true};
    long spawned = 0;
    int err = 0;
    int64_t start = weft_now();
    while (spawned < hall->wanted && !err) {
        struct guest *g = &hall->guests[spawned];
        g->hall = hall;
        weft_frame_init(&g->frame, &guest);
        err = weft_group_spawn_frame(hall->group, NULL, &g->frame, &opts);
        spawned += !err;
        if (spawned % BATCH == 0) {
            weft_yield();
        }
    }
    while (hall->seated < spawned) {
        weft_yield();
    }
    double seated = (double)(weft_now() - start);
    struct weft_group_stats stats;
    do { /* the statistics are those of the end of the group's last turn */
        weft_yield();
        weft_group_stats(hall->group, &stats);
    } while (stats.fibers <= (uint64_t)spawned); /* including this fiber */
    if (err) {
        screen_warn("weft_group_spawn_frame: %s; going on with %ld", weft_strerror(err), spawned);
    }
    fflush(stdout);
    int failed = weft_group_dump(hall->group, stdout,
                                 &(struct weft_dump_opts){.max_shown = 2, .no_frames = true});
    if (failed) {
        screen_warn("weft_group_dump: %s", weft_strerror(failed));
    }
    hall->failed |= failed && failed != -ENOMEM; /* the parked fibers may rightly use all memory */
    start = weft_now();
    weft_event_set(hall->bell);
    while (hall->gone < spawned) {
        weft_yield();
    }
    double left = (double)(weft_now() - start);
    screen_fact("frame fibers", "%s without a stack: %zu bytes each of frame, %d of control block",
                screen_number((uint64_t)spawned), sizeof(struct guest), CONTROL_BLOCK);
    screen_fact("cost", "%.0f ns to spawn and park one, %.0f ns to wake and end it",
                seated / (double)(spawned ? spawned : 1), left / (double)(spawned ? spawned : 1));
    return NULL;
}

static int show_guests(weft_dispatcher *dispatcher, long wanted)
{
    struct hall hall = {.wanted = wanted < MOST_PARKED ? wanted : MOST_PARKED};
    weft_event bell;
    while (!(hall.guests = calloc((size_t)hall.wanted, sizeof *hall.guests)) && hall.wanted > 1) {
        hall.wanted /= 2;
    }
    int err = hall.guests ? weft_group_create(dispatcher, &hall.group,
                                              &(struct weft_group_opts){.name = "hall"})
                          : -ENOMEM;
    if (!err) {
        weft_event_init(&bell, &(struct weft_sync_opts){.name = "bell", .group = hall.group});
        hall.bell = &bell;
        err = weft_group_spawn(hall.group, NULL, receive_guests, &hall,
                               &(struct weft_member_opts){.name = "host"});
        err = err ? err : play(dispatcher, &hall.group, 1);
    }
    if (err) {
        screen_warn("the group hall: %s", weft_strerror(err));
    }
    free(hall.guests);
    return err || hall.failed || hall.gone != hall.seated ? 1 : 0;
}

/* --- both ------------------------------------------------------------------------------------- */

int show_rounds(int number, long fibers)
{
    static struct stage stage;
    screen_heading("%d. A dispatcher: one thread, groups in fair rounds, fibers without a stack",
                   number);
    struct weft_dispatcher_opts opts = {
        .caller = true,
        .hog_ns = -1, /* one call wakes 100,000 */
        .on_overdue = WEFT_OVERDUE_CANCEL,
    };
    int err = weft_dispatcher_create(&stage.dispatcher, &opts);
    if (err) {
        screen_warn("weft_dispatcher_create: %s", weft_strerror(err));
        return 1;
    }
    err = weft_group_create(stage.dispatcher, &stage.crowd,
                            &(struct weft_group_opts){.name = "crowd"});
    err = err ? err
              : weft_group_create(stage.dispatcher, &stage.duel,
                                  &(struct weft_group_opts){.name = "duel"});
    err = err ? err
              : weft_group_create(stage.dispatcher, &stage.small,
                                  &(struct weft_group_opts){.name = "small"});
    int failed = 1;
    if (err) {
        screen_warn("a group: %s", weft_strerror(err));
    } else {
        failed = show_turns(&stage) | show_guests(stage.dispatcher, fibers);
    }
    weft_dispatcher_stop(stage.dispatcher, weft_after(PATIENCE_NS), NULL, 0);
    weft_dispatcher_destroy(stage.dispatcher);
    return failed;
}
