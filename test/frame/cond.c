/* labels: valgrind */
/* Conditions and frames. Counterparts of the original's tests:
 *   ConditionTest  broadcast_wakes_all_frames,
 *                  cond_signal_goes_to_front_later_to_back_broadcast_in_order,
 *                  frame_wait_for_several_conditions_names_signalled_one (with and without a
 *                  deadline; afterwards no waiter is linked: deinit checks that)
 * Timeout, signal of a timed wait and interrupt are in test/frame/wait.c. Faults of the original:
 * it reported neither which of two conditions had fired, nor whether a wait ended by a signal or a
 * timeout; only two conditions could be awaited.
 */
#include "dispatch/fixture.h"
#include "frame/fixture.h"

struct sleeper {
    weft_frame frame;
    struct weft_wait waits[64];
    weft_cond *conds[64];
    size_t n;
    int64_t deadline;
    const char *name;
    struct weft_got got;
};

static enum weft_step woken(weft_frame *f, struct weft_got got)
{
    SELF(sleeper);
    self->got = got;
    if (self->name) {
        notes_add(self->name);
    }
    return weft_frame_return(f, NULL);
}

static enum weft_step sleeps(weft_frame *f, struct weft_got got)
{
    SELF(sleeper);
    (void)got;
    return self->n == 1 ? weft_frame_await_cond(f, self->waits, self->conds[0], self->deadline,
                                                WEFT_THEN(woken))
                        : weft_frame_await_conds(f, self->waits, self->conds, self->n,
                                                 self->deadline, WEFT_THEN(woken));
}

static const struct weft_frame_kind sleeping = {.name = "sleeper", .start = sleeps};

static void sleeper_init(struct sleeper *s, const char *name, weft_cond *cond)
{
    *s = (struct sleeper){.name = name, .n = 1, .conds = {cond}, .deadline = WEFT_FOREVER};
    weft_frame_init(&s->frame, &sleeping);
}

/* --- a wait that ends in the step that begins it ---------------------------------------------- */

/* If the wait ends before the step has returned, it ends once, and the frame resumes at its resume
 * point. */
static enum weft_step ends_itself(weft_frame *f, struct weft_got got)
{
    SELF(sleeper);
    enum weft_step step = sleeps(f, got);
    notes_add("waits");
    weft_cond_signal(self->conds[0]);
    weft_cond_signal(self->conds[0]); /* no waiter */
    return step;
}

static enum weft_step ends_itself_late(weft_frame *f, struct weft_got got)
{
    SELF(sleeper);
    enum weft_step step = sleeps(f, got);
    notes_add("waits");
    weft_cond_signal_later(self->conds[0]);
    return step;
}

static const struct weft_frame_kind hasty = {.name = "hasty", .start = ends_itself};
static const struct weft_frame_kind lazy = {.name = "lazy", .start = ends_itself_late};

static void ends_its_wait(const struct weft_frame_kind *kind, int64_t deadline)
{
    struct home home;
    weft_cond cond;
    struct sleeper s;
    home_open(&home, true);
    weft_cond_init(&cond, &(struct weft_sync_opts){.group = home.group});
    sleeper_init(&s, "woken", &cond);
    s.frame.kind = kind;
    s.deadline = deadline;
    CHECK_EQ(home_run(&home, &s.frame, NULL), 0);
    CHECK(s.got.status == 0 && s.got.value == &cond);
    notes_are("waits woken");
    weft_cond_deinit(&cond);
    home_close(&home);
}

TEST(frame_step_can_end_wait_begun_in_same_step)
{
    ends_its_wait(&hasty, WEFT_FOREVER);
    ends_its_wait(&lazy, WEFT_FOREVER);
    ends_its_wait(&hasty, weft_after(3600 * 1000 * MS));
    ends_its_wait(&lazy, weft_after(3600 * 1000 * MS));
}

/* --- order, in a group ---------------------------------------------------------------------- */

static void *notes(void *arg)
{
    notes_add(arg);
    return NULL;
}

static void *orders(void *arg)
{
    static struct sleeper a, b, c;
    weft_cond cond;
    (void)arg;
    weft_cond_init(&cond, &(struct weft_sync_opts){.group = weft_group_self()});
    sleeper_init(&a, "a", &cond);
    sleeper_init(&b, "b", &cond);
    sleeper_init(&c, "c", &cond);
    CHECK_EQ(weft_spawn_frame(NULL, &a.frame, NULL), 0);
    CHECK_EQ(weft_spawn_frame(NULL, &b.frame, NULL), 0);
    CHECK_EQ(weft_spawn_frame(NULL, &c.frame, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_spawn(NULL, notes, (void *)(uintptr_t) "x", NULL), 0);
    weft_cond_signal(&cond);       /* a, before x */
    weft_cond_signal_later(&cond); /* b, after it */
    weft_cond_signal(&cond);       /* c, before a */
    weft_cond_signal(&cond);       /* no waiter: the signal is not kept */
    weft_yield();
    notes_are("c a x b");
    sleeper_init(&a, "a", &cond);
    sleeper_init(&b, "b", &cond);
    sleeper_init(&c, "c", &cond);
    CHECK_EQ(weft_spawn_frame(NULL, &a.frame, NULL), 0);
    CHECK_EQ(weft_spawn_frame(NULL, &b.frame, NULL), 0);
    CHECK_EQ(weft_spawn_frame(NULL, &c.frame, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_spawn(NULL, notes, (void *)(uintptr_t) "x", NULL), 0);
    weft_cond_broadcast(&cond);
    weft_yield();
    notes_are("a b c x");
    weft_cond_deinit(&cond);
    return NULL;
}

TEST(cond_signal_goes_to_front_later_to_back_broadcast_in_order)
{
    run_in_group(orders, NULL);
}

EACH_HOME(broadcast_wakes_all_frames)
{
    enum { MANY = 20 };
    static struct sleeper all[MANY];
    weft_fiber fibers[MANY];
    weft_cond cond;
    weft_cond_init(&cond, NULL);
    for (int i = 0; i < MANY; i++) {
        sleeper_init(&all[i], NULL, &cond);
        fibers[i] = home_waiting(home, &all[i].frame);
    }
    weft_cond_broadcast(&cond);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    weft_cond_deinit(&cond);
}

EACH_HOME(one_signal_wakes_one_frame)
{
    static struct sleeper a, b;
    weft_cond cond;
    enum weft_fiber_state state;
    weft_cond_init(&cond, NULL);
    sleeper_init(&a, NULL, &cond);
    sleeper_init(&b, NULL, &cond);
    weft_fiber first = home_waiting(home, &a.frame), second = home_waiting(home, &b.frame);
    weft_cond_signal_later(&cond);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_state(second, &state), 0);
    CHECK_EQ(state, WEFT_FIBER_WAITING);
    weft_cond_signal(&cond);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    weft_cond_deinit(&cond);
}

/* --- several --------------------------------------------------------------------------------- */

static void of_several(const struct home *home, size_t n, size_t which, int64_t deadline)
{
    static struct sleeper s;
    static weft_cond conds[64];
    s = (struct sleeper){.n = n, .deadline = deadline};
    weft_frame_init(&s.frame, &sleeping);
    for (size_t i = 0; i < n; i++) {
        weft_cond_init(&conds[i], NULL);
        s.conds[i] = &conds[i];
    }
    weft_fiber fiber = home_waiting(home, &s.frame);
    weft_cond_signal(&conds[which]);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(s.got.status, 0);
    CHECK(s.got.value == &conds[which]);
    for (size_t i = 0; i < n; i++) {
        weft_cond_deinit(&conds[i]); /* no waiter is linked */
    }
}

EACH_HOME(frame_wait_for_several_conditions_names_signalled_one)
{
    of_several(home, 2, 0, WEFT_FOREVER);
    of_several(home, 2, 1, WEFT_FOREVER);
    of_several(home, 2, 0, weft_after(3600 * 1000 * MS));
    of_several(home, 2, 1, weft_after(3600 * 1000 * MS));
    of_several(home, 64, 0, WEFT_FOREVER);
    of_several(home, 64, 63, WEFT_FOREVER);
}

/* A signal that the ended wait could not use goes to another waiter. */
EACH_HOME(second_signal_is_not_consumed_by_ended_frame_wait)
{
    static struct sleeper both, other;
    weft_cond conds[2];
    weft_cond_init(&conds[0], NULL);
    weft_cond_init(&conds[1], NULL);
    both = (struct sleeper){.n = 2, .conds = {&conds[0], &conds[1]}, .deadline = WEFT_FOREVER};
    weft_frame_init(&both.frame, &sleeping);
    sleeper_init(&other, NULL, &conds[1]);
    weft_fiber first = home_waiting(home, &both.frame), second = home_waiting(home, &other.frame);
    weft_cond_signal(&conds[0]);
    weft_cond_signal(&conds[1]);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    CHECK(both.got.value == &conds[0]);
    weft_cond_deinit(&conds[0]);
    weft_cond_deinit(&conds[1]);
}
