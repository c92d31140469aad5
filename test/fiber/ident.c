/* Queries on a fiber: name, number, state, stack. And stale handles: however often a slot is
 * reused, an old handle never reaches a new fiber. */
/* labels: valgrind */
#include "context/sanitizer.h"
#include "fiber/fibers.h"

/* --- names --------------------------------------------------------------------- */

static void *knows_its_name(void *arg)
{
    char name[32];
    CHECK_EQ(weft_fiber_name(weft_self(), name, sizeof name), 0);
    CHECK_STR(name, arg);
    return NULL;
}

static void *spawns_named(void *arg)
{
    static const struct {
        const char *given, *kept;
    } names[] = {{NULL, ""},
                 {"", ""},
                 {"reader", "reader"},
                 {"fifteen letters", "fifteen letters"},
                 {"sixteen letters.", "sixteen letters"},
                 {"a name that is much too long to keep", "a name that is "}};
    (void)arg;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct weft_fiber_opts opts = {.name = names[i].given};
        char kept[16];
        weft_fiber fiber;
        strcpy(kept, names[i].kept);
        CHECK_EQ(weft_spawn(&fiber, knows_its_name, kept, &opts), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(fiber_name_is_kept_up_to_fifteen_bytes)
{
    run_in_fiber(1, spawns_named, NULL);
}

static void *renames_itself(void *arg)
{
    char name[32];
    CHECK_EQ(weft_fiber_set_name("first"), 0);
    knows_its_name(strcpy(name, "first"));
    CHECK_EQ(weft_fiber_set_name("the second is too long"), 0);
    knows_its_name(strcpy(name, "the second is t"));
    CHECK_EQ(weft_fiber_set_name("fourteen bytes\xc3\xa4"), 0);
    knows_its_name(strcpy(name, "fourteen bytes"));
    CHECK_EQ(weft_fiber_set_name(""), 0);
    knows_its_name(strcpy(name, ""));
    CHECK_EQ(weft_fiber_set_name("last"), 0);
    return arg;
}

static void *looks_at_a_finished_one(void *arg)
{
    weft_fiber fiber;
    char name[32], little[3];
    (void)arg;
    CHECK_EQ(weft_spawn(&fiber, renames_itself, NULL, NULL), 0);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_name(fiber, name, sizeof name), 0);
    CHECK_STR(name, "last");
    CHECK_EQ(weft_fiber_name(fiber, little, sizeof little), 0);
    CHECK_STR(little, "la");
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_name(fiber, name, sizeof name), -ESRCH);
    return NULL;
}

TEST(fiber_can_rename_itself)
{
    CHECK_EQ(weft_fiber_set_name("nobody"), -ENXIO);
    run_in_fiber(1, looks_at_a_finished_one, NULL);
}

struct renamed {
    weft_fiber fiber;
    atomic_bool over;
};

static void *renames_itself_all_the_time(void *arg)
{
    struct renamed *renamed = arg;
    for (unsigned i = 0; !atomic_load(&renamed->over); i++) {
        CHECK_EQ(weft_fiber_set_name(i % 2 ? "aaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbb"), 0);
        if (i % 16 == 0) {
            weft_yield();
        }
    }
    return NULL;
}

TEST(fiber_name_is_never_read_torn)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct renamed renamed = {.fiber = WEFT_NO_FIBER};
    struct weft_fiber_opts opts = {.name = "aaaaaaaaaaaaaaa"};
    CHECK_EQ(weft_pool_spawn(pool, &renamed.fiber, renames_itself_all_the_time, &renamed, &opts),
             0);
    for (long i = 0, n = check_scale(20000) + 100; i < n; i++) {
        char name[16];
        CHECK_EQ(weft_fiber_name(renamed.fiber, name, sizeof name), 0);
        CHECK(strcmp(name, "aaaaaaaaaaaaaaa") == 0 || strcmp(name, "bbbbbbbbbbbbbbb") == 0);
    }
    atomic_store(&renamed.over, true);
    CHECK_EQ(weft_join(renamed.fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

/* --- numbers --------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

#define TEXTS 500

static void *collects_texts(void *arg)
{
    static char texts[TEXTS][32];
    (void)arg;
    for (int i = 0; i < TEXTS; i++) {
        weft_fiber fiber;
        unsigned slot, generation;
        CHECK_EQ(weft_spawn(&fiber, nothing, NULL, NULL), 0);
        int length = weft_fiber_format(fiber, texts[i], sizeof texts[i]);
        CHECK_EQ(length, (int)strlen(texts[i]));
        CHECK_EQ(sscanf(texts[i], "#%u.%u", &slot, &generation), 2);
        if (i % 3 != 0) {
            CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0); /* its slot is reused */
        } else {
            CHECK_EQ(weft_fiber_detach(fiber), 0);
        }
    }
    qsort(texts, TEXTS, sizeof texts[0], by_text);
    for (int i = 1; i < TEXTS; i++) {
        CHECK(strcmp(texts[i - 1], texts[i]) != 0);
    }
    return NULL;
}

TEST(fiber_numbers_are_unique)
{
    run_in_fiber(1, collects_texts, NULL);
}

/* --- states ------------------------------------------------------------------------- */

static enum weft_fiber_state state_of(weft_fiber fiber)
{
    enum weft_fiber_state state;
    CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    return state;
}

static void *looks_at_its_parent(void *arg)
{
    CHECK_EQ(state_of(weft_self()), WEFT_FIBER_RUNNING);
    CHECK_EQ(state_of(*(weft_fiber *)arg), WEFT_FIBER_READY); /* the other fiber has yielded */
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    CHECK_EQ(state_of(*(weft_fiber *)arg), WEFT_FIBER_WAITING); /* the other fiber joins */
    return NULL;
}

static void *follows_a_life(void *arg)
{
    weft_fiber self = weft_self(), fiber;
    enum weft_fiber_state state;
    (void)arg;
    CHECK_EQ(weft_fiber_create(&fiber, looks_at_its_parent, &self, NULL), 0);
    CHECK_EQ(state_of(fiber), WEFT_FIBER_CREATED);
    CHECK_EQ(weft_fiber_submit(fiber, weft_pool_self(), WEFT_ANY_WORKER), 0);
    CHECK_EQ(state_of(fiber), WEFT_FIBER_READY);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(state_of(fiber), WEFT_FIBER_READY);
    CHECK_EQ(weft_fiber_share(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(state_of(fiber), WEFT_FIBER_DONE);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_state(fiber, &state), -ESRCH);
    return NULL;
}

TEST(fiber_state_follows_its_life_cycle)
{
    run_in_fiber(1, follows_a_life, NULL);
}

TEST(fiber_states_have_names)
{
    CHECK_STR(weft_fiber_state_name(WEFT_FIBER_CREATED), "created");
    CHECK_STR(weft_fiber_state_name(WEFT_FIBER_READY), "ready");
    CHECK_STR(weft_fiber_state_name(WEFT_FIBER_RUNNING), "running");
    CHECK_STR(weft_fiber_state_name(WEFT_FIBER_WAITING), "waiting");
    CHECK_STR(weft_fiber_state_name(WEFT_FIBER_DONE), "done");
    CHECK_STR(weft_fiber_state_name((enum weft_fiber_state)99), "unknown");
}

/* --- stacks --------------------------------------------------------------------------- */

static const struct {
    size_t asked, given;
} sizes[] = {
    {1, 16 << 10},       {16 << 10, 16 << 10}, {(16 << 10) + 1, 32 << 10},           {0, 64 << 10},
    {100000, 128 << 10}, {1 << 20, 1 << 20},   {(size_t)64 << 20, (size_t)64 << 20},
};

#define SIZES (sizeof sizes / sizeof *sizes)

static void *asks_for_stacks(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < SIZES; i++) {
        struct weft_fiber_opts opts = {.stack_bytes = sizes[i].asked};
        weft_fiber fiber;
        size_t size = 1, used = 1;
        CHECK_EQ(weft_spawn(&fiber, parks, NULL, &opts), 0);
        CHECK_EQ(weft_fiber_stack(fiber, &size, &used), 0);
        CHECK(size == 0 && used == 0); /* the stack is attached when the fiber first runs */
        await_state(fiber, WEFT_FIBER_WAITING);
        CHECK_EQ(weft_fiber_stack(fiber, &size, &used), 0);
        CHECK_EQ(size, sizes[i].given);
        CHECK(used > 0 && used <= size);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        await_state(fiber, WEFT_FIBER_DONE);
        CHECK_EQ(weft_fiber_stack(fiber, &size, &used), 0);
        CHECK(size == 0 && used == 0); /* its stack belongs to another fiber by now */
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_fiber_stack(fiber, &size, &used), -ESRCH);
    }
    return NULL;
}

TEST(stack_size_is_requested_size_rounded_up)
{
    run_in_fiber(1, asks_for_stacks, NULL);
}

static void *looks_at_its_stack(void *arg)
{
    size_t size, used;
    CHECK_EQ(weft_fiber_stack(weft_self(), &size, &used), 0);
    CHECK_EQ(size, (size_t)arg);
    return NULL;
}

TEST(fiber_without_stack_option_gets_pool_stack_size)
{
    struct weft_pool_opts opts = {.workers = 1, .stack_bytes = 200000};
    CHECK_EQ(weft_run(NULL, looks_at_its_stack, (void *)(256 << 10), &opts, WEFT_FOREVER), 0);
}

#define DEEP (600 << 10)

static void *goes_deep(void *arg)
{
    volatile char array[DEEP];
    for (size_t i = 0; i < sizeof array; i += 512) {
        array[i] = 1;
    }
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    CHECK_EQ(array[0], 1);
    return arg;
}

static void *measures_depth(void *arg)
{
    struct weft_fiber_opts opts = {.stack_bytes = 2 << 20};
    weft_fiber shallow, deep;
    size_t size, used;
    (void)arg;
    weft_memory_trim();
    CHECK_EQ(weft_spawn(&shallow, parks, NULL, &opts), 0);
    await_state(shallow, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_spawn(&deep, goes_deep, NULL, &opts), 0);
    await_state(deep, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_stack(shallow, &size, &used), 0);
    CHECK(used < DEEP);
    CHECK_EQ(weft_fiber_stack(deep, &size, &used), 0);
    CHECK(used >= DEEP && used < DEEP + (256 << 10));
    CHECK_EQ(weft_fiber_unpark(shallow), 0);
    CHECK_EQ(weft_fiber_unpark(deep), 0);
    CHECK_EQ(weft_join(shallow, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(deep, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(high_water_mark_shows_deepest_stack_use)
{
    run_in_fiber(1, measures_depth, NULL);
}

/* --- stale and invalid handles ---------------------------------------------------------------- */

static void check_refused(weft_fiber fiber)
{
    weft_pool *pool = weft_pool_self();
    char name[16];
    size_t size, used;
    enum weft_fiber_state state;
    void *result = &name;
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -ESRCH);
    CHECK(result == &name);
    CHECK_EQ(weft_fiber_unpark(fiber), -ESRCH);
    CHECK_EQ(weft_cancel(fiber), -ESRCH);
    CHECK_EQ(weft_fiber_share(fiber), -ESRCH);
    CHECK_EQ(weft_fiber_detach(fiber), -ESRCH);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -ESRCH);
    CHECK_EQ(weft_fiber_discard(fiber), -ESRCH);
    CHECK_EQ(weft_fiber_name(fiber, name, sizeof name), -ESRCH);
    CHECK_EQ(weft_fiber_state(fiber, &state), -ESRCH);
    CHECK_EQ(weft_fiber_stack(fiber, &size, &used), -ESRCH);
}

static void *tries_what_never_was(void *arg)
{
    struct weft_memory_stats memory;
    weft_fiber self = weft_self();
    (void)arg;
    weft_memory_stats(&memory);
    check_refused(WEFT_NO_FIBER);
    check_refused(UINT64_MAX);
    check_refused(UINT32_MAX);
    check_refused(self + ((uint64_t)1 << 32));          /* the next fiber in this slot */
    check_refused(self & UINT64_C(0xffffffff00000000)); /* slot 0 */
    check_refused(memory.blocks + 1);
    check_refused(UINT64_C(0xffffffff00000000) | (uint32_t)self);
    return NULL;
}

TEST(invalid_handle_is_rejected)
{
    run_in_fiber(1, tries_what_never_was, NULL);
}

#define LIVES 3000

static int by_value(const void *a, const void *b)
{
    weft_fiber x = *(const weft_fiber *)a, y = *(const weft_fiber *)b;
    return (x > y) - (x < y);
}

static void *lives_many_lives(void *arg)
{
    static weft_fiber old[LIVES];
    int lives = (int)check_scale(LIVES);
    int same_slot = 0;
    weft_fiber fiber;
    (void)arg;
    lives = lives < LIVES ? lives : LIVES;
    for (int i = 0; i < lives; i++) {
        CHECK_EQ(weft_spawn(&old[i], nothing, NULL, NULL), 0);
        same_slot += i > 0 && (uint32_t)old[i] == (uint32_t)old[i - 1];
        if (i % 2 == 0) {
            CHECK_EQ(weft_join(old[i], NULL, WEFT_FOREVER), 0);
        } else {
            CHECK_EQ(weft_fiber_detach(old[i]), 0);
            weft_yield();
        }
        check_refused(old[i]);
    }
    CHECK(same_slot > lives / 2); /* otherwise this tests nothing */
    CHECK_EQ(weft_spawn(&fiber, parks, NULL, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    for (int i = 0; i < lives; i++) {
        check_refused(old[i]);
    }
    CHECK_EQ(state_of(fiber), WEFT_FIBER_WAITING); /* none of the calls reached it */
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    qsort(old, (size_t)lives, sizeof old[0], by_value);
    for (int i = 1; i < lives; i++) {
        CHECK(old[i - 1] != old[i]);
    }
    return NULL;
}

TEST(stale_handle_is_rejected_after_any_slot_reuse)
{
    run_in_fiber(1, lives_many_lives, NULL);
}

/* Threads use a handle that one fiber after another leaves stale. */
struct target {
    _Atomic(weft_fiber) fiber;
    atomic_bool over;
};

static void *pokes(void *arg)
{
    struct target *target = arg;
    while (!atomic_load(&target->over)) {
        weft_fiber fiber = atomic_load(&target->fiber);
        enum weft_fiber_state state;
        char name[16];
        size_t size, used;
        int err = weft_fiber_unpark(fiber);
        CHECK(err == 0 || err == -ESRCH);
        err = weft_fiber_state(fiber, &state);
        CHECK(err == 0 || err == -ESRCH);
        err = weft_fiber_name(fiber, name, sizeof name);
        CHECK(err == -ESRCH || strcmp(name, "target") == 0);
        err = weft_fiber_stack(fiber, &size, &used);
        CHECK(err == -ESRCH || size == 0 || size == (64 << 10));
        weft_yield(); /* three threads, maybe on two CPUs: this thread is not under test */
    }
    return NULL;
}

static void *is_not_unparked_by_accident(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    }
    return NULL;
}

static void *makes_targets(void *arg)
{
    struct target *target = arg;
    struct weft_fiber_opts named = {.name = "target"}, opts = {.name = "bystander"};
    for (long i = 0, n = check_scale(1000) + 30; i < n; i++) {
        weft_fiber fiber, other;
        CHECK_EQ(weft_spawn(&fiber, parks, NULL, &named), 0);
        atomic_store(&target->fiber, fiber);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_fiber_unpark(fiber), -ESRCH);
        if (i % 8 == 0) {
            /* Most likely in the slot that the other threads' handle refers to. */
            CHECK_EQ(weft_spawn(&other, is_not_unparked_by_accident, NULL, &opts), 0);
            CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
        }
    }
    return NULL;
}

TEST(calls_on_handle_of_ending_fiber_reach_no_other_fiber)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct target target = {.fiber = WEFT_NO_FIBER};
    weft_fiber maker;
    pthread_t threads[2];
    CHECK_EQ(weft_pool_spawn(pool, &maker, makes_targets, &target, NULL), 0);
    for (int i = 0; i < 2; i++) {
        threads[i] = thread_open(pokes, &target);
    }
    CHECK_EQ(weft_join(maker, NULL, WEFT_FOREVER), 0);
    atomic_store(&target.over, true);
    for (int i = 0; i < 2; i++) {
        thread_close(threads[i]);
    }
    pool_close(pool);
}

/* --- enumeration while fibers start and end ------------------------------------------------- */

static bool check_info(const struct weft_fiber_info *info, void *arg)
{
    int *seen = arg;
    CHECK(info->fiber != WEFT_NO_FIBER);
    CHECK(info->name[0] == 0 || strcmp(info->name, "churn") == 0 || strcmp(info->name, "c") == 0);
    CHECK(info->worker >= -1 && info->worker < 2);
    CHECK(info->bound >= -1 && info->bound < 2);
    CHECK(info->waits == NULL || strcmp(info->waits, "join") == 0 ||
          strcmp(info->waits, "park") == 0);
    (*seen)++;
    return true;
}

static void *churns(void *arg)
{
    atomic_bool *over = arg;
    for (unsigned i = 0; !atomic_load(over); i++) {
        struct weft_fiber_opts opts = {
            .name = "c", .bound = i % 2 == 0, .worker = (int)(i / 2 % 2)};
        weft_fiber fiber;
        CHECK_EQ(weft_spawn(&fiber, i % 3 == 0 ? parks : nothing, NULL, &opts), 0);
        int err = weft_fiber_unpark(fiber);
        CHECK(err == 0 || err == -ESRCH);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(fiber_walk_is_safe_while_fibers_start_and_end)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    atomic_bool over = false;
    int seen = 0;
    for (int i = 0; i < 3; i++) {
        struct weft_fiber_opts opts = {.name = "churn"};
        CHECK_EQ(weft_pool_spawn(pool, NULL, churns, &over, &opts), 0);
    }
    for (long i = 0, n = check_scale(4000) + 5; i < n; i++) {
        weft_fiber_each(pool, check_info, &seen);
    }
    atomic_store(&over, true);
    pool_close(pool);
    CHECK(seen > 0);
}
