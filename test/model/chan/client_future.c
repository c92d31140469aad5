/* Clients of future/future.c and future/future_combinators.c: completion against waits and against
 * another completion; derived futures against the end of their sources. All memory must be free at
 * the end. */
#include <errno.h>

#define FIBERS 1
#include "future/future.h"
#include "model/fibers.h"

static weft_future *future, *two[2], *to;
static int thing, published, told[3], result;

static void setup(void)
{
    fibers_setup();
    published = 0;
    result = told[0] = told[1] = told[2] = 1;
    X_ASSERT(weft_future_create(&future, NULL) == 0);
    x_name(future, sizeof *future, "future");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!future->source.waiters.first && !future->continuations.first);
    weft_future_unref(future);
}

static void wait_against_complete(int i)
{
    void *value = NULL;
    if (i == 0) {
        X_ASSERT(weft_future_get(future, &value, WEFT_FOREVER) == 0);
        X_ASSERT(value == &thing && published == 1);
    } else {
        published = 1;
        X_ASSERT(weft_future_complete(future, &thing) == 0);
    }
}

static void complete_against_fail(int i)
{
    if (i == 0) {
        X_ASSERT(weft_future_wait(future, WEFT_FOREVER) == 0);
        result = weft_future_result(future, NULL);
    } else {
        told[i] = i == 1 ? weft_future_complete(future, &thing) : weft_future_fail(future, -EIO);
    }
}

static void one_was_first(void)
{
    X_ASSERT((told[1] == 0) + (told[2] == 0) == 1 && told[1] + told[2] == -EALREADY);
    X_ASSERT(result == (told[1] == 0 ? 0 : -EIO));
    rest();
}

static void complete_against_deadline(int i)
{
    if (i == 0) {
        result = weft_future_wait(future, LATER);
        X_ASSERT(result == 0 || result == -ETIMEDOUT);
    } else if (i == 1) {
        X_ASSERT(weft_future_complete(future, &thing) == 0);
    } else {
        fibers_expire(0);
    }
}

/* ---- references ---- */

static void setup_shared(void)
{
    setup();
    weft_future_ref(future);
}

/* The thread that drops the last reference frees the future, after the other has used it. */
static void drop_together(int i)
{
    if (i == 0) {
        X_ASSERT(weft_future_complete(future, &thing) == 0);
    } else {
        (void)weft_future_wait(future, TWIN_NOW);
    }
    weft_future_unref(future);
}

/* ---- derived futures ---- */

static void was_told(void *arg, int err, void *value)
{
    (void)arg;
    X_ASSERT(err == 0 && value == &thing && published == 1);
    told[0]++;
}

static void then_against_complete(int i)
{
    if (i == 0) {
        X_ASSERT(weft_future_then(future, was_told, NULL) == 0);
    } else {
        published = 1;
        X_ASSERT(weft_future_complete(future, &thing) == 0);
    }
}

static void was_told_once(void)
{
    X_ASSERT(told[0] == 2);
    rest();
}

static int convert(void *arg, void *value, void **out)
{
    (void)arg, (void)value;
    told[0]++;
    *out = &published;
    return 0;
}

static void setup_map(void)
{
    setup();
    X_ASSERT(weft_future_map(future, &to, convert, NULL) == 0);
    x_name(to, sizeof *to, "derived");
}

/* The derived future is cancelled and dropped while its source is completed. */
static void map_against_cancel(int i)
{
    if (i == 0) {
        X_ASSERT(weft_future_complete(future, &thing) == 0);
    } else {
        told[1] = weft_future_cancel(to);
        X_ASSERT(weft_future_result(to, NULL) == (told[1] ? 0 : -ECANCELED));
        weft_future_unref(to);
    }
}

static void converted_at_most_once(void)
{
    X_ASSERT(told[0] <= 2 && (told[1] == 0 || told[0] == 2));
    rest();
}

static void setup_two(void)
{
    setup();
    two[0] = future;
    X_ASSERT(weft_future_create(&two[1], NULL) == 0);
    x_name(two[1], sizeof *two[1], "second");
}

static void setup_any(void)
{
    setup_two();
    X_ASSERT(weft_future_any(&to, two, 2) == 0);
    x_name(to, sizeof *to, "derived");
}

static void any_of_two(int i)
{
    X_ASSERT(weft_future_complete(two[i], &told[i]) == 0);
    weft_future_unref(two[i]);
}

static void any_is_decided(void)
{
    void *value;
    fibers_rest();
    X_ASSERT(weft_future_result(to, &value) == 0);
    X_ASSERT(value == &told[weft_future_which(to)]);
    weft_future_unref(to);
}

/* One source completes; the other loses its last reference. */
static void any_against_drop(int i)
{
    if (i == 0) {
        X_ASSERT(weft_future_complete(two[0], &told[0]) == 0);
    }
    weft_future_unref(two[i]);
}

static void setup_all(void)
{
    setup_two();
    X_ASSERT(weft_future_all(&to, two, 2) == 0);
    x_name(to, sizeof *to, "derived");
}

static void all_of_two(int i)
{
    X_ASSERT(weft_future_complete(two[i], &told[i]) == 0);
    weft_future_unref(two[i]);
}

static void all_are_there(void)
{
    void *values;
    fibers_rest();
    X_ASSERT(weft_future_result(to, &values) == 0);
    X_ASSERT(((void **)values)[0] == &told[0] && ((void **)values)[1] == &told[1]);
    weft_future_unref(to);
}

/* Derived while one of the two sources is being completed. */
static void any_made_meanwhile(int i)
{
    if (i == 0) {
        X_ASSERT(weft_future_any(&to, two, 2) == 0);
        X_ASSERT(weft_future_cancel(two[1]) == 0);
    } else {
        X_ASSERT(weft_future_complete(two[0], &told[0]) == 0);
    }
}

static void first_of_two(void)
{
    X_ASSERT(weft_future_result(to, NULL) == 0 && weft_future_which(to) == 0);
    weft_future_unref(to);
    weft_future_unref(two[1]);
    rest();
}

static const struct x_client clients[] = {
    X_CLIENT("wait_against_complete", 2, setup, wait_against_complete, rest),
    X_CLIENT("drop_together", 2, setup_shared, drop_together, fibers_rest),
    X_CLIENT("then_against_complete", 2, setup, then_against_complete, was_told_once),
    X_CLIENT("map_against_cancel", 2, setup_map, map_against_cancel, converted_at_most_once,
             .preemptions = 3, .stale = 1),
    X_CLIENT("any_against_drop", 2, setup_any, any_against_drop, any_is_decided, .preemptions = 3,
             .stale = 1),
    X_CLIENT("any_of_two", 2, setup_any, any_of_two, any_is_decided, .preemptions = 2, .stale = 1),
    X_CLIENT("all_of_two", 2, setup_all, all_of_two, all_are_there, .preemptions = 3, .stale = 1),
    X_CLIENT("any_made_meanwhile", 2, setup_two, any_made_meanwhile, first_of_two, .preemptions = 3,
             .stale = 1),
    X_CLIENT("complete_against_fail", 3, setup, complete_against_fail, one_was_first,
             .preemptions = 2, .stale = 1),
    X_CLIENT("complete_against_deadline", 3, setup, complete_against_deadline, rest,
             .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
