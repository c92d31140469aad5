/* Clients of future/oneshot.c: notify against wait, deadline, close and another notify. The object
 * is freed as soon as the wait has its value. */
#include <errno.h>

#define FIBERS 1
#include "future/oneshot.h"
#include "model/fibers.h"

static weft_oneshot *oneshot;
static int thing, published, result, told[3];

static void setup(void)
{
    fibers_setup();
    oneshot = x_alloc(sizeof(struct weft__oneshot), false);
    weft_oneshot_init(oneshot, NULL);
    published = 0;
    result = told[1] = told[2] = 1;
    x_name(oneshot, sizeof(struct weft__oneshot), "oneshot");
}

static void wait_against_notify(int i)
{
    void *value = NULL;
    if (i == 0) {
        X_ASSERT(weft_oneshot_wait(oneshot, &value, WEFT_FOREVER) == 0);
        X_ASSERT(value == &thing && published == 1);
        x_free(oneshot);
    } else {
        published = 1;
        X_ASSERT(weft_oneshot_notify(oneshot, &thing) == 0);
    }
}

/* The losing thread keeps its value; the waiter returns to get it. */
static void wait_against_two(int i)
{
    void *value = NULL;
    if (i == 0) {
        result = weft_oneshot_wait(oneshot, &value, WEFT_FOREVER);
        X_ASSERT(result == 0 && (value == &told[1] || value == &told[2]));
    } else {
        told[i] = weft_oneshot_notify(oneshot, &told[i]);
    }
}

static void one_was_taken(void)
{
    fibers_rest();
    X_ASSERT((told[1] == 0) + (told[2] == 0) == 1);
    X_ASSERT(told[1] == -EALREADY || told[2] == -EALREADY);
    x_free(oneshot);
}

static void notify_against_deadline(int i)
{
    void *value = NULL;
    if (i == 0) {
        result = weft_oneshot_wait(oneshot, &value, LATER);
        if (result == -ETIMEDOUT) {
            X_ASSERT(weft_oneshot_wait(oneshot, &value, WEFT_FOREVER) == 0);
        }
        X_ASSERT(value == &thing);
    } else if (i == 1) {
        X_ASSERT(weft_oneshot_notify(oneshot, &thing) == 0);
    } else {
        fibers_expire(0);
    }
}

static void nobody_waits(void)
{
    fibers_rest();
    struct weft__oneshot *o = weft__oneshot_of(oneshot);
    X_ASSERT(!o->source.waiters.first && o->state == WEFT__ONESHOT_TAKEN);
    x_free(oneshot);
}

/* Either notify or close is first, and the wait returns accordingly. */
static void notify_against_close(int i)
{
    if (i == 0) {
        result = weft_oneshot_wait(oneshot, NULL, WEFT_FOREVER);
    } else if (i == 1) {
        told[1] = weft_oneshot_notify(oneshot, &thing);
    } else {
        told[2] = weft_oneshot_close(oneshot);
    }
}

static void answered_accordingly(void)
{
    fibers_rest();
    X_ASSERT(told[1] == 0 ? told[2] == -EALREADY : told[1] == -EPIPE && told[2] == 0);
    X_ASSERT(result == (told[1] == 0 ? 0 : -EPIPE));
    x_free(oneshot);
}

static const struct x_client clients[] = {
    X_CLIENT("wait_against_notify", 2, setup, wait_against_notify, fibers_rest),
    X_CLIENT("wait_against_two", 3, setup, wait_against_two, one_was_taken, .preemptions = 2,
             .stale = 1),
    X_CLIENT("notify_against_close", 3, setup, notify_against_close, answered_accordingly,
             .preemptions = 2, .stale = 1),
    X_CLIENT("notify_against_deadline", 3, setup, notify_against_deadline, nobody_waits,
             .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
