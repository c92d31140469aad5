/* labels: valgrind */
/* Frames from the frame pool and in the caller's memory. As in the original, a frame may be reused
 * once its finally has run. */
#include "frame/fixture.h"
#include "worker/worker.h"

struct small {
    weft_frame frame;
    int sum, left;
};

struct large {
    weft_frame frame;
    char room[4000];
};

static enum weft_step returns(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static const struct weft_frame_kind returning = {.name = "returns", .start = returns};

TEST(new_frame_is_zeroed_and_can_be_freed_unused)
{
    for (int i = 0; i < 3; i++) {
        struct large *large = (struct large *)weft_frame_create(&returning, sizeof *large);
        CHECK(large);
        for (size_t k = 0; k < sizeof large->room; k++) {
            CHECK_EQ(large->room[k], 0);
        }
        memset(large->room, 7, sizeof large->room);
        weft_frame_destroy(&large->frame);
    }
    weft_frame_destroy(NULL);
}

/* --- many, of several sizes ------------------------------------------------------------------ */

static enum weft_step next(weft_frame *f, struct weft_got got)
{
    SELF(small);
    size_t bytes = self->left % 5 == 0 ? sizeof(struct large)
                                       : sizeof(weft_frame) + 60u * (unsigned)(self->left % 9);
    (void)got;
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    weft_frame *sub = weft_frame_create(&returning, bytes);
    CHECK(sub);
    char *room = (char *)(sub + 1);
    for (size_t i = 0; i < bytes - sizeof *sub; i++) {
        CHECK_EQ(room[i], 0);
        room[i] = 1;
    }
    return self->left % 2 ? weft_frame_call(f, sub, WEFT_THEN(next))
                          : weft_frame_try(f, sub, WEFT_THEN(next));
}

static const struct weft_frame_kind making = {.name = "makes", .start = next};

EACH_HOME(pool_frames_are_freed_automatically)
{
    enum { MANY = 8 };
    struct small all[MANY];
    weft_fiber fibers[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = (struct small){.left = 500};
        weft_frame_init(&all[i].frame, &making);
        fibers[i] = home_spawn(home, &all[i].frame);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}

static weft_frame *seen[2];

static enum weft_step takes_two(weft_frame *f, struct weft_got got)
{
    SELF(small);
    (void)got;
    if (self->left == 2) {
        return weft_frame_return(f, NULL);
    }
    weft_frame *sub = weft_frame_create(&returning, sizeof(struct small));
    CHECK(sub);
    seen[self->left++] = sub;
    return weft_frame_call(f, sub, WEFT_THEN(takes_two));
}

static const struct weft_frame_kind taking = {.name = "takes", .start = takes_two};

EACH_HOME(freed_frame_memory_is_reused_by_next_frame)
{
    struct small one = {.left = 0};
    weft_frame_init(&one.frame, &taking);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0);
    CHECK(seen[0] && seen[0] == seen[1]);
}

/* The bottom frame itself may come from the frame pool, and be created by a plain thread. */
EACH_HOME(bottom_frame_from_pool_is_freed)
{
    for (int i = 0; i < 100; i++) {
        struct small *one = (struct small *)weft_frame_create(&making, sizeof *one);
        CHECK(one);
        one->left = 3;
        CHECK_EQ(home_run(home, &one->frame, NULL), 0);
    }
}

/* --- allocated on one worker, freed on another ------------------------------------------------ */

static _Atomic(int) moved;

struct mover {
    weft_frame frame;
    int left;
    const struct weft__worker *made_on;
};

static enum weft_step looks(weft_frame *f, struct weft_got got)
{
    SELF(mover);
    (void)got;
    atomic_fetch_add(&moved, weft__worker_self() != self->made_on);
    return weft_frame_return(f, NULL);
}

static enum weft_step yields(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_yield(f, WEFT_THEN(looks));
}

static const struct weft_frame_kind moving = {.name = "moves", .start = yields};

static enum weft_step moves(weft_frame *f, struct weft_got got)
{
    SELF(mover);
    (void)got;
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    struct mover *sub = (struct mover *)weft_frame_create(&moving, sizeof *sub);
    CHECK(sub);
    sub->made_on = weft__worker_self();
    return weft_frame_call(f, &sub->frame, WEFT_THEN(moves));
}

static const struct weft_frame_kind mover_kind = {.name = "mover", .start = moves};

TEST(frame_can_be_freed_on_other_worker_than_allocated)
{
    enum { MANY = 64 };
    static struct mover all[MANY];
    weft_fiber fibers[MANY];
    struct home home;
    home_open(&home, false);
    for (int tries = 0; tries < 100000 && atomic_load(&moved) == 0; tries++) {
        for (int i = 0; i < MANY; i++) {
            all[i] = (struct mover){.left = 100};
            weft_frame_init(&all[i].frame, &mover_kind);
            fibers[i] = home_spawn(&home, &all[i].frame);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        }
    }
    CHECK(atomic_load(&moved) > 0);
    home_close(&home);
}

/* --- the caller's memory ---------------------------------------------------------------------- */

static enum weft_step ends(weft_frame *f)
{
    SELF(small);
    self->sum++;
    return weft_frame_done(f);
}

static const struct weft_frame_kind counting = {
    .name = "counts", .start = returns, .finally = ends};

struct again {
    weft_frame frame;
    struct small sub;
    int left;
};

static enum weft_step calls_again(weft_frame *f, struct weft_got got)
{
    SELF(again);
    (void)got;
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    return weft_frame_call(f, &self->sub.frame, WEFT_THEN(calls_again)); /* without another init */
}

static const struct weft_frame_kind calling_again = {.name = "again", .start = calls_again};

EACH_HOME(finished_frame_can_be_reused)
{
    struct again again = {.left = 100};
    for (int i = 0; i < 3; i++) { /* also as the bottom of another fiber */
        again.left = 100;
        again.sub.sum = 0;
        weft_frame_init(&again.frame, &calling_again);
        weft_frame_init(&again.sub.frame, &counting);
        CHECK_EQ(home_run(home, &again.frame, NULL), 0);
        CHECK_EQ(again.sub.sum, 100);
    }
}

TEST(frame_size_is_at_most_48_bytes)
{
    CHECK(sizeof(weft_frame) <= 48);
    CHECK(sizeof(struct weft__task) + sizeof(weft_frame) <= 200);
}
