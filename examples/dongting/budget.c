/* Dongting: new Fiber("...", group, frame, false, signalCountInEachRound). Dongting's page advises
 * a low count for fibers that run often; the opposite is true. The count is the number of times
 * that a fiber may be woken in one round: two fibers that wake one another continue for that long,
 * while all other fibers wait. */
#include <stdio.h>
#include <weft/weft.h>

enum { ROUNDS = 100 };

static weft_cond turn[2];
static long exchanged;
static bool over;

struct player {
    weft_frame frame;
    struct weft_wait wait;
    int side;
};

static enum weft_step play(weft_frame *f, struct weft_got got)
{
    struct player *self = (struct player *)f;
    (void)got;
    exchanged++;
    weft_cond_signal(&turn[1 - self->side]); /* goes to the front */
    return over ? weft_frame_return(f, NULL)
                : weft_frame_await_cond(f, &self->wait, &turn[self->side], WEFT_FOREVER,
                                        WEFT_THEN(play));
}

static const struct weft_frame_kind playing = {.name = "player", .start = play};

/* Runs once per round. */
static void *watch(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        weft_yield();
    }
    over = true;
    return arg;
}

static double per_round(unsigned signals)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    struct player players[2];
    struct weft_member_opts opts = {.signals_per_round = signals};
    exchanged = 0;
    over = false;
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL)) {
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        players[i].side = i;
        weft_cond_init(&turn[i], &(struct weft_sync_opts){.group = group});
        weft_frame_init(&players[i].frame, &playing);
        if (weft_group_spawn_frame(group, NULL, &players[i].frame, &opts)) {
            return 0;
        }
    }
    if (weft_group_spawn(group, NULL, watch, NULL, NULL)) {
        return 0;
    }
    weft_group_stop(group);
    weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    return (double)exchanged / ROUNDS;
}

int main(void)
{
    double one = per_round(1), ten = per_round(10);
    printf("runs of the two per round: %.1f with 1 signal, %.1f with 10\n", one, ten);
    return one > 4 || ten < 15;
}
