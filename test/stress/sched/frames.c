/* Frame fibers that do random steps: each step waits for something, calls another frame, throws, or
 * opens a scope; meanwhile threads cancel, interrupt and unpark the fibers, and two workers, or one
 * dispatcher, run them. Every entered frame is left by its finally, exactly once, with at most one
 * error to handle, and no channel item is lost or duplicated. Waits have deadlines only where
 * nothing else is certain to end them: a lost wake-up is a stall.
 *
 * A normal run uses 76,000 bottom frames.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

#define US INT64_C(1000)
#define FIBERS 64
#define DEPTH 3
#define CHILDREN 3

struct wanderer {
    weft_frame frame;
    struct weft_wait waits[3];
    struct weft_case cases[3];
    weft_scope scope;
    uint64_t dice;
    int left, depth, item, handled, finals;
    bool sends; /* whether success of the current wait means an item was sent, or received */
    bool receives;
    bool has_scope;
};

/* --- shared objects --------------------------------------------------------------------- */

static weft_event event = WEFT_EVENT_INIT;
static weft_cond conds[2] = {WEFT_COND_INIT, WEFT_COND_INIT};
static weft_chan *chan;
static int ends[2];
static _Atomic(weft_fiber) fibers[FIBERS];
static atomic_bool over;
static atomic_long entered, left, handled, sent, received, bottoms;

static uint32_t roll(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static enum weft_step wander(weft_frame *f, struct weft_got got);
static enum weft_step starts(weft_frame *f, struct weft_got got);
static enum weft_step handles(weft_frame *f, const weft_error *error);
static enum weft_step cleans_up(weft_frame *f);
static const struct weft_frame_kind kind = {
    .name = "wanderer", .start = starts, .handle = handles, .finally = cleans_up};

static struct wanderer *make(struct wanderer *of)
{
    struct wanderer *sub = (struct wanderer *)weft_frame_create(&kind, sizeof *sub);
    CHECK(sub);
    sub->dice = of->dice ^ (uint64_t)roll(&of->dice) << 32;
    sub->depth = of->depth + 1;
    return sub;
}

/* --- steps ---------------------------------------------------------------------------------- */

static enum weft_step closed(weft_frame *f, struct weft_got got)
{
    struct wanderer *self = (struct wanderer *)f;
    self->has_scope = false;
    CHECK(got.status <= 0);
    return wander(f, (struct weft_got){0});
}

static enum weft_step open_scope(struct wanderer *self)
{
    struct weft_scope_opts opts = {
        .fail_fast = roll(&self->dice) % 2,
        .deadline = roll(&self->dice) % 3 ? 0 : weft_after(roll(&self->dice) % 300 * US),
    };
    CHECK_EQ(weft_scope_open(&self->scope, &opts), 0);
    self->has_scope = true;
    for (int i = 0; i < CHILDREN; i++) {
        struct wanderer *child = make(self);
        if (weft_scope_spawn_frame(&self->scope, NULL, &child->frame, NULL) != 0) {
            weft_frame_destroy(&child->frame);
        }
    }
    if (roll(&self->dice) % 4 == 0) {
        weft_scope_cancel(&self->scope);
    }
    return weft_frame_await_scope(&self->frame, self->waits, &self->scope, WEFT_FOREVER,
                                  WEFT_THEN(closed));
}

static enum weft_step join_one(struct wanderer *self, const struct weft_resume_point *then)
{
    struct wanderer *other = make(self);
    weft_fiber fiber;
    other->depth = DEPTH;
    CHECK_EQ(weft_spawn_frame(&fiber, &other->frame, NULL), 0);
    if (roll(&self->dice) % 4 == 0) {
        weft_cancel(fiber);
    }
    /* Without a deadline; if the join ends for another reason, the fiber is left without a
     * joiner. */
    return weft_frame_await_join(&self->frame, self->waits, fiber, WEFT_FOREVER, then);
}

static enum weft_step choose(struct wanderer *self, int64_t deadline,
                             const struct weft_resume_point *then)
{
    self->cases[0] = weft_case_event(&event);
    self->cases[1] = weft_case_cond(&conds[0], NULL);
    self->cases[2] = weft_case_at(weft_after(roll(&self->dice) % 100 * US));
    return weft_frame_select(&self->frame, self->waits, self->cases, 3, deadline, then);
}

static enum weft_step act(struct wanderer *self)
{
    weft_frame *f = &self->frame;
    const struct weft_resume_point *then = WEFT_THEN(wander);
    weft_cond *const both[] = {&conds[0], &conds[1]};
    int64_t soon = weft_after(roll(&self->dice) % 200 * US);
    switch (roll(&self->dice) % 17) {
    case 0:
        return weft_frame_sleep(f, soon, then);
    case 1:
        return weft_frame_await_event(f, self->waits, &event, WEFT_FOREVER, then);
    case 2:
        return weft_frame_await_cond(f, self->waits, &conds[1], WEFT_FOREVER, then);
    case 3:
        return weft_frame_await_conds(f, self->waits, both, 2, soon, then);
    case 4:
    case 5:
        self->sends = true;
        return weft_frame_await_send(f, self->waits, chan, &self->item, soon, then);
    case 6:
    case 7:
        self->receives = true;
        return weft_frame_await_recv(f, self->waits, chan, &self->item, soon, then);
    case 8:
        return weft_frame_await_fd(f, self->waits, ends[0], WEFT_READABLE, soon, then);
    case 9:
        return choose(self, weft_after(200 * US), then);
    case 10:
        return weft_frame_park(f, soon, then);
    case 11:
        return self->depth < DEPTH ? weft_frame_call(f, &make(self)->frame, then)
                                   : weft_frame_yield(f, then);
    case 12:
        return self->depth < DEPTH ? weft_frame_try(f, &make(self)->frame, then)
                                   : weft_frame_continue(f, NULL, then);
    case 13:
        return weft_frame_throw(f, -EDOM, "at depth %d", self->depth);
    case 14:
        return self->depth < DEPTH ? open_scope(self) : weft_frame_yield(f, then);
    case 15:
        return self->depth < DEPTH ? join_one(self, then) : weft_frame_sleep(f, 0, then);
    default:
        return weft_frame_yield(f, then);
    }
}

static void account(struct wanderer *self, int status)
{
    if (status == 0 && self->sends) {
        atomic_fetch_add(&sent, 1);
    } else if (status == 0 && self->receives) {
        atomic_fetch_add(&received, 1);
    }
    self->sends = self->receives = false;
}

static enum weft_step wander(weft_frame *f, struct weft_got got)
{
    struct wanderer *self = (struct wanderer *)f;
    account(self, got.status);
    if (self->left-- <= 0 || atomic_load(&over)) {
        return weft_frame_return(f, self);
    }
    return act(self);
}

static enum weft_step starts(weft_frame *f, struct weft_got got)
{
    struct wanderer *self = (struct wanderer *)f;
    atomic_fetch_add(&entered, 1);
    self->left = (int)(roll(&self->dice) % 16);
    return wander(f, got);
}

static enum weft_step handles(weft_frame *f, const weft_error *error)
{
    struct wanderer *self = (struct wanderer *)f;
    atomic_fetch_add(&handled, 1);
    CHECK_EQ(++self->handled, 1);
    CHECK(weft_error_code(error) < 0);
    CHECK(weft_error_frames(error) >= 1);
    self->sends = self->receives = false; /* nothing was transferred */
    switch (roll(&self->dice) % 4) {
    case 0:
        return weft_frame_rethrow(f);
    case 1:
        return weft_frame_return(f, NULL);
    case 2:
        return weft_frame_throw_from(f, -ERANGE, error, "in handle");
    default:
        return wander(f, (struct weft_got){.status = -1});
    }
}

static enum weft_step cleaned_up(weft_frame *f, struct weft_got got)
{
    struct wanderer *self = (struct wanderer *)f;
    (void)got;
    return roll(&self->dice) % 8 ? weft_frame_done(f) : weft_frame_throw(f, -EILSEQ, "in finally");
}

static enum weft_step cleans_up(weft_frame *f)
{
    struct wanderer *self = (struct wanderer *)f;
    atomic_fetch_add(&left, 1);
    CHECK_EQ(++self->finals, 1);
    CHECK(!self->has_scope); /* a scope is left only by its end */
    if (self->depth == 0) {
        atomic_fetch_add(&bottoms, 1);
    }
    switch (roll(&self->dice) % 3) {
    case 0:
        return weft_frame_yield(f, WEFT_THEN(cleaned_up));
    case 1: /* also in a cancelled fiber: the sleep runs to its end */
        return weft_frame_sleep(f, weft_after(roll(&self->dice) % 20 * US), WEFT_THEN(cleaned_up));
    default:
        return weft_frame_done(f);
    }
}

/* --- disturbing threads ----------------------------------------------------------------------- */

static void *disturbs(void *arg)
{
    uint64_t dice = check_seed() ^ (uint64_t)(uintptr_t)arg;
    int item = 1;
    while (!atomic_load(&over)) {
        weft_fiber fiber = atomic_load(&fibers[roll(&dice) % FIBERS]);
        switch (roll(&dice) % 8) {
        case 0:
            if (roll(&dice) % 64 == 0) {
                weft_cancel(fiber);
            }
            break;
        case 1:
            if (roll(&dice) % 8 == 0) {
                weft_fiber_interrupt(fiber);
            }
            break;
        case 2:
            weft_fiber_unpark(fiber);
            break;
        case 3:
            weft_event_set(&event);
            weft_event_reset(&event);
            break;
        case 4:
            weft_cond_broadcast(&conds[1]);
            weft_cond_signal(&conds[0]);
            break;
        case 5:
            atomic_fetch_add(&sent, weft_chan_send(chan, &item, 0) == 0);
            break;
        case 6:
            atomic_fetch_add(&received, weft_chan_recv(chan, &item, 0) == 0);
            break;
        default:
            if (roll(&dice) % 2) {
                (void)!send(ends[1], "x", 1, MSG_DONTWAIT);
            } else {
                (void)!recv(ends[0], &(char){0}, 1, MSG_DONTWAIT);
            }
            break;
        }
        if (roll(&dice) % 16 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

/* At the end the fibers must be released from waits that have no deadline. */
static void let_out(weft_fiber fiber)
{
    while (weft_join(fiber, NULL, weft_after(1000 * US)) == -ETIMEDOUT) {
        weft_event_set(&event);
        weft_event_reset(&event);
        weft_cond_broadcast(&conds[0]);
        weft_cond_broadcast(&conds[1]);
    }
}

static void no_report(weft_fiber fiber, const char *name, const weft_error *error)
{
    (void)fiber, (void)name;
    CHECK(weft_error_code(error) < 0);
}

/* --- a round ---------------------------------------------------------------------------------- */

struct place {
    weft_pool *pool;
    weft_dispatcher *dispatcher;
    weft_group *group;
};

/* In a group, fibers left at the end without a joiner are cancelled. */
static weft_fiber spawn(const struct place *place, weft_frame *frame)
{
    static const struct weft_member_opts daemon = {.daemon = true};
    weft_fiber fiber;
    CHECK_EQ(place->pool ? weft_pool_spawn_frame(place->pool, &fiber, frame, NULL)
                         : weft_group_spawn_frame(place->group, &fiber, frame, &daemon),
             0);
    return fiber;
}

static void run(const struct place *place, long rounds)
{
    static struct wanderer all[FIBERS];
    pthread_t threads[2];
    uint64_t dice = check_seed();
    atomic_store(&over, false);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, disturbs, &fibers[i]), 0);
    }
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < FIBERS; i++) {
            all[i] = (struct wanderer){.dice = dice + (uint64_t)(round * FIBERS + i)};
            weft_frame_init(&all[i].frame, &kind);
            atomic_store(&fibers[i], spawn(place, &all[i].frame));
        }
        for (int i = 0; i < FIBERS; i++) {
            let_out(atomic_load(&fibers[i]));
            CHECK_EQ(all[i].finals, 1);
        }
        watchdog_progress();
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

static void settle(void)
{
    watchdog_stop();
    long items = (long)weft_chan_length(chan);
    CHECK_EQ(atomic_load(&sent), atomic_load(&received) + items);
    CHECK_EQ(atomic_load(&entered), atomic_load(&left));
    CHECK(atomic_load(&handled) <= atomic_load(&entered));
    printf("  %ld frames, %ld bottoms, %ld errors, %ld items\n", atomic_load(&entered),
           atomic_load(&bottoms), atomic_load(&handled), atomic_load(&sent));
    weft_chan_destroy(chan);
    weft_close(ends[0]);
    weft_close(ends[1]);
}

static void begin(const char *what)
{
    watchdog_start(what);
    weft_frame_on_error(no_report);
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), &(struct weft_chan_opts){.capacity = 2}), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    atomic_store(&entered, 0);
    atomic_store(&left, 0);
    atomic_store(&handled, 0);
    atomic_store(&sent, 0);
    atomic_store(&received, 0);
    atomic_store(&bottoms, 0);
}

TEST(random_frame_fibers_in_pool_run_each_finally_once)
{
    struct place place = {0};
    begin("wanderers in a pool");
    CHECK_EQ(weft_pool_create(&place.pool, &(struct weft_pool_opts){.workers = 3}), 0);
    CHECK_EQ(weft_pool_start(place.pool), 0);
    watchdog_watch(place.pool);
    run(&place, check_scale(600));
    CHECK_EQ(weft_pool_stop(place.pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    watchdog_forget(place.pool);
    weft_pool_destroy(place.pool);
    settle();
}

TEST(random_frame_fibers_in_group_run_each_finally_once)
{
    struct place place = {0};
    begin("wanderers in a group");
    CHECK_EQ(weft_dispatcher_create(&place.dispatcher, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(place.dispatcher), 0);
    CHECK_EQ(weft_group_create(place.dispatcher, &place.group, NULL), 0);
    run(&place, check_scale(600));
    CHECK_EQ(weft_dispatcher_stop(place.dispatcher, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(place.dispatcher);
    settle();
}
