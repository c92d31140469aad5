/* State that belongs to one fiber: fiber-local values with destructors, cleanups, and errno. */
/* labels: valgrind */
#include "fiber/fibers.h"

static void *join(weft_fiber fiber)
{
    void *result;
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    return result;
}

/* The events in their order. Fibers of one worker, or one fiber at a time, write it. */
static char story[64];

static void tell(const char *what)
{
    CHECK(strlen(story) + strlen(what) < sizeof story);
    strcat(story, what);
}

static void tell_arg(void *arg)
{
    tell(arg);
}

/* --- cleanups ---------------------------------------------------------------- */

static void push(struct weft_fiber_cleanup *node, const char *what)
{
    weft_fiber_cleanup_push(node, tell_arg, (void *)(uintptr_t)what);
}

/* The nodes cannot live in the frame of a function that returns: they are used after the return. */
static void *returns_with_cleanups(void *arg)
{
    static struct weft_fiber_cleanup a, b, c;
    push(&a, "a");
    push(&b, "b");
    push(&c, "c");
    tell("-");
    return arg;
}

static void goes_deep(int depth, void *result)
{
    struct weft_fiber_cleanup node;
    push(&node, "d");
    if (depth > 0) {
        goes_deep(depth - 1, result);
    } else if (result) {
        weft_fiber_exit(result);
    }
    weft_fiber_cleanup_pop(&node, false);
}

static void *exits_with_cleanups(void *arg)
{
    struct weft_fiber_cleanup a, b;
    push(&a, "a");
    push(&b, "b");
    goes_deep(2, NULL);
    goes_deep(2, arg);
    tell("never");
    return NULL;
}

static void *ends_with_cleanups(void *arg)
{
    (void)arg;
    story[0] = 0;
    CHECK_EQ((intptr_t)join(spawn(returns_with_cleanups, (void *)1)), 1);
    CHECK_STR(story, "-cba");
    story[0] = 0;
    CHECK_EQ((intptr_t)join(spawn(exits_with_cleanups, (void *)2)), 2);
    CHECK_STR(story, "dddba");
    return NULL;
}

TEST(cleanups_run_in_reverse_order_on_return_and_on_exit)
{
    run_in_fiber(1, ends_with_cleanups, NULL);
    run_in_fiber(2, ends_with_cleanups, NULL);
}

static void *pops(void *arg)
{
    static struct weft_fiber_cleanup a, b;
    struct weft_fiber_cleanup c;
    push(&a, "a");
    push(&b, "b");
    push(&c, "c");
    weft_fiber_cleanup_pop(&c, true);
    weft_fiber_cleanup_pop(&b, false);
    tell("-");
    push(&b, "B");
    return arg;
}

static void *runs_pops(void *arg)
{
    story[0] = 0;
    join(spawn(pops, arg));
    CHECK_STR(story, "c-Ba");
    return NULL;
}

TEST(popped_cleanup_runs_immediately_or_never)
{
    run_in_fiber(1, runs_pops, NULL);
}

static void pushes_another(void *arg)
{
    static struct weft_fiber_cleanup late;
    tell(arg);
    push(&late, "late");
}

static void *pushes_while_it_ends(void *arg)
{
    struct weft_fiber_cleanup a, b;
    push(&a, "a");
    weft_fiber_cleanup_push(&b, pushes_another, (void *)(uintptr_t) "b");
    weft_fiber_exit(arg);
}

static void exits_again(void *arg)
{
    tell("x");
    weft_fiber_exit(arg);
}

static void *exits_while_it_ends(void *arg)
{
    struct weft_fiber_cleanup a, b, c;
    push(&a, "a");
    weft_fiber_cleanup_push(&b, exits_again, (void *)8);
    push(&c, "c");
    weft_fiber_exit(arg);
}

static void *ends_strangely(void *arg)
{
    (void)arg;
    story[0] = 0;
    join(spawn(pushes_while_it_ends, NULL));
    CHECK_STR(story, "blatea");
    story[0] = 0;
    CHECK_EQ((intptr_t)join(spawn(exits_while_it_ends, (void *)7)), 8);
    CHECK_STR(story, "cxa");
    return NULL;
}

TEST(cleanup_can_push_another_cleanup_or_exit_again)
{
    run_in_fiber(1, ends_strangely, NULL);
}

static void *child(void *arg)
{
    weft_yield();
    return arg;
}

static void waits_in_every_way(void *arg)
{
    weft_fiber self = weft_self();
    for (int i = 0; i < 10; i++) {
        weft_yield();
    }
    CHECK_EQ(weft_fiber_park(weft_after(50000)), -ETIMEDOUT);
    CHECK_EQ((intptr_t)join(spawn(child, (void *)5)), 5);
    CHECK_EQ(weft_self(), self);
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void *waits_in_cleanups(void *arg)
{
    struct weft_fiber_cleanup nodes[3];
    for (int i = 0; i < 3; i++) {
        weft_fiber_cleanup_push(&nodes[i], waits_in_every_way, arg);
    }
    weft_fiber_exit(arg);
}

#define FIBERS 30

static void *ends_slowly(void *arg)
{
    static atomic_int cleaned[FIBERS];
    weft_fiber fibers[FIBERS];
    (void)arg;
    for (int i = 0; i < FIBERS; i++) {
        atomic_store(&cleaned[i], 0);
        fibers[i] = spawn(waits_in_cleanups, &cleaned[i]);
    }
    for (int i = 0; i < FIBERS; i++) {
        /* Joiners get the result after all cleanups, not before. */
        CHECK(join(fibers[i]) == &cleaned[i]);
        CHECK_EQ(atomic_load(&cleaned[i]), 3);
    }
    return NULL;
}

TEST(cleanup_can_yield_park_and_join)
{
    run_in_fiber(1, ends_slowly, NULL);
    run_in_fiber(3, ends_slowly, NULL);
}

/* --- locals -------------------------------------------------------------------------- */

static weft_fiber_key plain_key, owned_key, late_key;
static atomic_int destroyed;

static void destroy(void *value)
{
    atomic_fetch_add(&destroyed, 1);
    tell(value);
}

static void destroy_late(void *value)
{
    /* A destructor may set values again, as with threads: the new values are destroyed too. */
    if (strcmp(value, "1") == 0) {
        CHECK_EQ(weft_fiber_set_local(late_key, (void *)(uintptr_t) "2"), 0);
    }
    tell(value);
}

TEST(key_create_returns_distinct_keys)
{
    CHECK_EQ(weft_fiber_key_create(&plain_key, NULL), 0);
    CHECK_EQ(weft_fiber_key_create(&owned_key, destroy), 0);
    CHECK_EQ(weft_fiber_key_create(&late_key, destroy_late), 0);
    CHECK(plain_key != owned_key && owned_key != late_key && plain_key != late_key);
}

TEST(fiber_locals_outside_fiber_are_rejected)
{
    CHECK_EQ(weft_fiber_set_local(plain_key, &plain_key), -ENXIO);
    CHECK(weft_fiber_get_local(plain_key) == NULL);
}

static void *keeps_a_local(void *arg)
{
    CHECK(weft_fiber_get_local(plain_key) == NULL);
    CHECK_EQ(weft_fiber_set_local(plain_key, arg), 0);
    for (int i = 0; i < 20; i++) {
        weft_yield();
        CHECK(weft_fiber_get_local(plain_key) == arg);
        if (i % 5 == 0) {
            CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
            CHECK(weft_fiber_get_local(plain_key) == arg);
        }
    }
    CHECK_EQ(weft_fiber_set_local(plain_key, NULL), 0);
    CHECK(weft_fiber_get_local(plain_key) == NULL);
    CHECK_EQ(weft_fiber_set_local(plain_key, arg), 0);
    return arg;
}

static void *keep_locals(void *arg)
{
    weft_fiber fibers[FIBERS];
    (void)arg;
    for (int round = 0; round < 2; round++) { /* the second round reuses the stacks of the first */
        for (intptr_t i = 0; i < FIBERS; i++) {
            fibers[i] = spawn(keeps_a_local, (void *)(i + 1));
        }
        for (intptr_t i = 0; i < FIBERS; i++) {
            CHECK_EQ((intptr_t)join(fibers[i]), i + 1);
        }
    }
    CHECK(weft_fiber_get_local(plain_key) == NULL);
    return NULL;
}

TEST(fiber_local_is_per_fiber_and_starts_null)
{
    run_in_fiber(1, keep_locals, NULL);
    run_in_fiber(3, keep_locals, NULL);
}

static void looks_at_local(void *arg)
{
    CHECK_STR(weft_fiber_get_local(owned_key), "v");
    tell(arg);
}

static void *has_all(void *arg)
{
    struct weft_fiber_cleanup node;
    CHECK_EQ(weft_fiber_set_local(owned_key, (void *)(uintptr_t) "u"), 0);
    CHECK_EQ(weft_fiber_set_local(owned_key, (void *)(uintptr_t) "v"), 0);
    CHECK_EQ(weft_fiber_set_local(late_key, (void *)(uintptr_t) "1"), 0);
    CHECK_EQ(weft_fiber_set_local(plain_key, arg), 0);
    weft_fiber_cleanup_push(&node, looks_at_local, (void *)(uintptr_t) "c");
    weft_fiber_exit(arg);
}

static void *has_null(void *arg)
{
    CHECK_EQ(weft_fiber_set_local(owned_key, (void *)(uintptr_t) "w"), 0);
    CHECK_EQ(weft_fiber_set_local(owned_key, NULL), 0);
    return arg;
}

static void *end_with_locals(void *arg)
{
    (void)arg;
    atomic_store(&destroyed, 0);
    story[0] = 0;
    join(spawn(has_all, NULL));
    CHECK_STR(story, "cv12"); /* cleanups see the locals; only the last value is destroyed */
    CHECK_EQ(atomic_load(&destroyed), 1);
    join(spawn(has_null, NULL));
    CHECK_EQ(atomic_load(&destroyed), 1);
    join(spawn(child, NULL));
    CHECK_EQ(atomic_load(&destroyed), 1);
    return NULL;
}

TEST(local_destructors_run_at_fiber_end_for_set_values)
{
    run_in_fiber(1, end_with_locals, NULL);
}

/* --- errno ------------------------------------------------------------------------------- */

/* Not inlined: a compiler may keep the address of errno across a call, and the fiber moves to
 * another thread. */
static __attribute__((noinline)) int read_errno(void)
{
    __asm__ volatile("" ::: "memory");
    return errno;
}

static __attribute__((noinline)) void write_errno(int value)
{
    errno = value;
    __asm__ volatile("" ::: "memory");
}

static void *keeps_errno(void *arg)
{
    CHECK_EQ(read_errno(), 0);
    write_errno((int)(intptr_t)arg);
    for (int i = 0; i < 30; i++) {
        if (i % 6 == 0) {
            CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
        } else {
            weft_yield();
        }
        CHECK_EQ(read_errno(), (intptr_t)arg);
    }
    return arg;
}

static void *keep_errnos(void *arg)
{
    weft_fiber fibers[FIBERS];
    (void)arg;
    write_errno(1000);
    for (intptr_t i = 0; i < FIBERS; i++) {
        fibers[i] = spawn(keeps_errno, (void *)(i + 1));
    }
    for (intptr_t i = 0; i < FIBERS; i++) {
        CHECK_EQ((intptr_t)join(fibers[i]), i + 1);
        CHECK_EQ(read_errno(), 1000);
    }
    return NULL;
}

TEST(errno_is_per_fiber)
{
    run_in_fiber(1, keep_errnos, NULL);
    run_in_fiber(4, keep_errnos, NULL);
}

/* --- last, because keys are never freed ------------------------------------------------------ */

static void *uses_all_keys(void *arg)
{
    for (weft_fiber_key key = 0; key < 16; key++) {
        if (key != owned_key && key != late_key) {
            CHECK_EQ(weft_fiber_set_local(key, (char *)arg + key), 0);
        }
    }
    weft_yield();
    for (weft_fiber_key key = 0; key < 16; key++) {
        if (key != owned_key && key != late_key) {
            CHECK(weft_fiber_get_local(key) == (char *)arg + key);
        }
    }
    return NULL;
}

static void *use_all_keys(void *arg)
{
    static char base[2][16];
    (void)arg;
    weft_fiber one = spawn(uses_all_keys, base[0]), two = spawn(uses_all_keys, base[1]);
    join(one);
    join(two);
    return NULL;
}

TEST(key_create_fails_after_sixteen_keys)
{
    weft_fiber_key key = 99;
    for (int i = 3; i < 16; i++) {
        CHECK_EQ(weft_fiber_key_create(&key, NULL), 0);
        CHECK(key < 16);
    }
    key = 99;
    CHECK_EQ(weft_fiber_key_create(&key, NULL), -EAGAIN);
    CHECK_EQ(key, 99);
    run_in_fiber(1, use_all_keys, NULL);
}
