/* labels: valgrind */
/* Futures and frames. Counterparts of the original's tests:
 *   FutureTest     completed, failed or cancelled by another thread, before and after the wait
 *                  began (frame_gets_outcome_of_future_completed_by_thread); the rest of it is
 *                  in test/frame/wait.c (timeout, interrupt, interrupt before the start) and
 *                  test/future/future.c (callbacks, conversions)
 * The order in which waiters and other fibers resume:
 * frame_woken_by_future_runs_before_ready_fibers.
 */
#include "dispatch/fixture.h"
#include "frame/fixture.h"

struct awaits {
    weft_frame frame;
    struct weft_wait wait;
    weft_future *future;
    void *value;
    int code;
    const char *name;
};

static enum weft_step got_it(weft_frame *f, struct weft_got got)
{
    SELF(awaits);
    CHECK_EQ(got.status, 0);
    self->value = got.value;
    if (self->name) {
        notes_add(self->name);
    }
    return weft_frame_return(f, NULL);
}

static enum weft_step awaits(weft_frame *f, struct weft_got got)
{
    SELF(awaits);
    (void)got;
    return weft_frame_await_future(f, &self->wait, self->future, WEFT_FOREVER, WEFT_THEN(got_it));
}

static enum weft_step failed(weft_frame *f, const weft_error *error)
{
    SELF(awaits);
    self->code = weft_error_code(error);
    return weft_frame_rethrow(f);
}

static const struct weft_frame_kind awaiting = {
    .name = "awaits", .start = awaits, .handle = failed};

enum how { COMPLETE, FAIL, CANCEL };

struct decides {
    weft_future *future;
    enum how how;
};

static void *decide(void *arg)
{
    const struct decides *d = arg;
    CHECK_EQ(d->how == COMPLETE ? weft_future_complete(d->future, arg)
             : d->how == FAIL   ? weft_future_fail(d->future, -EBADE)
                                : weft_future_cancel(d->future),
             0);
    return NULL;
}

static void decided(const struct home *home, enum how how, bool before)
{
    static const int codes[] = {0, -EBADE, -ECANCELED};
    struct awaits one = {0};
    struct decides decides = {.how = how};
    weft_fiber fiber;
    CHECK_EQ(weft_future_create(&decides.future, NULL), 0);
    one.future = decides.future;
    weft_frame_init(&one.frame, &awaiting);
    if (before) {
        thread_close(thread_open(decide, &decides));
        fiber = home_spawn(home, &one.frame);
    } else {
        fiber = home_waiting(home, &one.frame);
        thread_close(thread_open(decide, &decides));
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), codes[how]);
    CHECK_EQ(one.code, codes[how]);
    CHECK(one.value == (how == COMPLETE ? &decides : NULL));
    /* A cancelled future is an error in this fiber, because the fiber itself was not cancelled. */
    CHECK_EQ(take_reports(), how != COMPLETE);
    weft_future_unref(decides.future);
}

EACH_HOME(frame_gets_outcome_of_future_completed_by_thread)
{
    for (int before = 0; before < 2; before++) {
        decided(home, COMPLETE, before);
        decided(home, FAIL, before);
        decided(home, CANCEL, before);
    }
}

EACH_HOME(every_frame_waiting_for_future_gets_value)
{
    enum { MANY = 30 };
    static struct awaits all[MANY];
    weft_fiber fibers[MANY];
    weft_future *future;
    CHECK_EQ(weft_future_create(&future, NULL), 0);
    for (int i = 0; i < MANY; i++) {
        all[i] = (struct awaits){.future = future};
        weft_frame_init(&all[i].frame, &awaiting);
        fibers[i] = home_waiting(home, &all[i].frame);
    }
    weft_future_complete(future, all);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        CHECK(all[i].value == all);
    }
    weft_future_unref(future);
}

static void *notes(void *arg)
{
    notes_add(arg);
    return NULL;
}

static void *completes(void *arg)
{
    static struct awaits all[3];
    static const char *const names[] = {"w0", "w1", "w2"};
    weft_future *future;
    (void)arg;
    CHECK_EQ(weft_future_create(&future, NULL), 0);
    for (int i = 0; i < 3; i++) {
        all[i] = (struct awaits){.future = future, .name = names[i]};
        weft_frame_init(&all[i].frame, &awaiting);
        CHECK_EQ(weft_spawn_frame(NULL, &all[i].frame, NULL), 0);
    }
    weft_yield();
    CHECK_EQ(weft_spawn(NULL, notes, (void *)(uintptr_t) "ready", NULL), 0);
    weft_future_complete(future, NULL);
    notes_add("completer");
    weft_yield();
    notes_are("completer w0 w1 w2 ready");
    weft_future_unref(future);
    return NULL;
}

TEST(frame_woken_by_future_runs_before_ready_fibers)
{
    run_in_group(completes, NULL);
}
