/* Clients of lock/lock.h. */
#include "lock/lock.h"
#include "model/explore.h"

static struct weft__lock lock;
static int guarded; /* plain: two holders at once would race */

static void setup(void)
{
    atomic_init(&lock.word, 0);
    guarded = 0;
    x_name(&lock, sizeof lock, "lock");
    x_name(&guarded, sizeof guarded, "guarded");
}

static void enter(void)
{
    weft__lock(&lock);
    guarded++;
    weft__unlock(&lock);
}

static void once(int i)
{
    (void)i;
    enter();
}

static void twice(int i)
{
    (void)i;
    enter();
    enter();
}

static void first_twice(int i)
{
    enter();
    if (i == 0) {
        enter();
    }
}

static void try_against_lock(int i)
{
    if (i == 0) {
        if (weft__lock_try(&lock)) {
            guarded++;
            weft__unlock(&lock);
        }
    } else {
        enter();
    }
}

static void try_alone(int i)
{
    (void)i;
    X_ASSERT(weft__lock_try(&lock));
    X_ASSERT(!weft__lock_try(&lock));
    weft__unlock(&lock);
    X_ASSERT(weft__lock_try(&lock));
    weft__unlock(&lock);
}

static void is_free(void)
{
    X_ASSERT(lock.word == 0);
}

static void entered_2(void)
{
    X_ASSERT(guarded == 2);
    is_free();
}
static void entered_3(void)
{
    X_ASSERT(guarded == 3);
    is_free();
}
static void entered_4(void)
{
    X_ASSERT(guarded == 4);
    is_free();
}

static const struct x_client clients[] = {
    X_CLIENT("two_threads", 2, setup, once, entered_2, .spurious = 1),
    X_CLIENT("two_threads_twice", 2, setup, twice, entered_4),
    X_CLIENT("three_threads", 3, setup, once, entered_3),
    X_CLIENT("three_threads_first_twice", 3, setup, first_twice, entered_4, .preemptions = 3),
    X_CLIENT("try_against_lock", 2, setup, try_against_lock, is_free),
    X_CLIENT("try_alone", 1, setup, try_alone, is_free),
};

X_MAIN(clients)
