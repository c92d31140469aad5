/* Stacks without a scheduler: size classes, credits, caches, trimming, high-water marks. */
/* labels: valgrind */
#include "context/stack.h"

#include <errno.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "check.h"

#define SMALLEST 0u

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t trim_to(size_t keep)
{
    return weft__stack_trim(keep, SIZE_MAX);
}

TEST(stack_size_maps_to_smallest_sufficient_class)
{
    CHECK_EQ(weft__stack_class(0), 0);
    CHECK_EQ(weft__stack_class(1), 0);
    CHECK_EQ(weft__stack_class(16 * 1024), 0);
    CHECK_EQ(weft__stack_class(16 * 1024 + 1), 1);
    CHECK_EQ(weft__stack_class(64 * 1024), 2);
    CHECK_EQ(weft__stack_class((size_t)64 << 20), WEFT__STACK_CLASSES - 1);
    CHECK_EQ(weft__stack_class(((size_t)64 << 20) + 1), -EINVAL);
    CHECK_EQ(weft__stack_class(SIZE_MAX), -EINVAL);
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        CHECK_EQ(weft__stack_class(weft__stack_bytes(class)), class);
    }
}

/* --- one stack ------------------------------------------------------------------------ */

static struct weft__stack *take_one(unsigned class)
{
    CHECK_EQ(weft__stack_credit_take(class, 1), 0);
    return weft__stack_get_slow(class);
}

static void give_one(struct weft__stack *stack, unsigned class)
{
    weft__stack_put_slow(stack, class);
    weft__stack_credit_give(class, 1);
}

TEST(every_byte_of_every_stack_class_is_usable)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        struct weft__stack *stack = take_one(class);
        char *bottom = weft__stack_bottom(stack, class);
        CHECK_EQ(stack->top - bottom, weft__stack_bytes(class));
        CHECK_EQ((uintptr_t)stack->top % page_bytes(), 0);
        for (char *at = bottom; at < stack->top; at += page_bytes() * 16) {
            *at = 1;
        }
        stack->top[-1] = 1;
        give_one(stack, class);
    }
    trim_to(0);
}

TEST(fault_address_maps_to_stack_above_its_guard)
{
    struct weft__stack *one = take_one(SMALLEST), *two = take_one(SMALLEST);
    char *bottom = weft__stack_bottom(one, SMALLEST);
    unsigned class = 99;
    CHECK(weft__stack_of_guard(bottom - 1, &class) == one);
    CHECK_EQ(class, SMALLEST);
    CHECK(weft__stack_of_guard(bottom - WEFT__STACK_GUARD, &class) == one);
    CHECK(weft__stack_of_guard(weft__stack_bottom(two, SMALLEST) - 100, &class) == two);
    CHECK(weft__stack_of_guard(bottom, &class) == NULL);
    CHECK(weft__stack_of_guard(one->top - 1, &class) == NULL);
    CHECK(weft__stack_of_guard(NULL, &class) == NULL);
    CHECK(weft__stack_of_guard(&class, &class) == NULL);
    give_one(one, SMALLEST);
    give_one(two, SMALLEST);
}

TEST(high_water_mark_is_deepest_touched_page)
{
    unsigned class = 4;
    size_t size = weft__stack_bytes(class), page = page_bytes();
    trim_to(0);
    struct weft__stack *stack = take_one(class);
    CHECK_EQ(weft__stack_high_water(stack, class), 0);
    stack->top[-1] = 1;
    CHECK_EQ(weft__stack_high_water(stack, class), page);
    stack->top[-(ptrdiff_t)page - 1] = 1;
    CHECK_EQ(weft__stack_high_water(stack, class), 2 * page);
    stack->top[-(ptrdiff_t)size / 2] = 1; /* pages in between were never present */
    CHECK_EQ(weft__stack_high_water(stack, class), size / 2);
    *weft__stack_bottom(stack, class) = 1;
    CHECK_EQ(weft__stack_high_water(stack, class), size);
    give_one(stack, class);
}

TEST(trim_releases_pages_and_stack_is_as_new)
{
    unsigned class = 3;
    struct weft__stack *stack = take_one(class);
    char *bottom = weft__stack_bottom(stack, class);
    memset(bottom, 0x55, weft__stack_bytes(class));
    give_one(stack, class);
    CHECK_EQ(trim_to(1), 0); /* one may be kept */
    CHECK(trim_to(0) >= 1);
    CHECK_EQ(weft__stack_warm(), 0);
    CHECK_EQ(trim_to(0), 0);
    struct weft__stack *again = take_one(class);
    CHECK(again == stack); /* a cold stack before one that was never used */
    CHECK_EQ(weft__stack_high_water(again, class), 0);
    CHECK_EQ(bottom[0], 0);
    memset(bottom, 0x55, weft__stack_bytes(class));
    give_one(again, class);
}

TEST(trim_stops_at_requested_limit)
{
    unsigned class = 1;
    struct weft__stack *stacks[8];
    trim_to(0);
    for (int i = 0; i < 8; i++) {
        stacks[i] = take_one(class);
    }
    for (int i = 0; i < 8; i++) {
        give_one(stacks[i], class);
    }
    CHECK_EQ(weft__stack_warm(), 8);
    CHECK_EQ(weft__stack_trim(0, 3), 3);
    CHECK_EQ(weft__stack_warm(), 5);
    CHECK_EQ(weft__stack_trim(4, 3), 1);
    CHECK_EQ(weft__stack_trim(4, 3), 0);
    CHECK_EQ(weft__stack_trim(0, SIZE_MAX), 4);
}

TEST(warm_stack_is_taken_before_cold_stack)
{
    unsigned class = 1;
    struct weft__stack *one = take_one(class), *two = take_one(class);
    give_one(one, class);
    trim_to(0);
    give_one(two, class);
    struct weft__stack *first = take_one(class), *second = take_one(class);
    CHECK(first == two);
    CHECK(second == one);
    give_one(first, class);
    give_one(second, class);
}

/* --- caches ----------------------------------------------------------------------------- */

TEST(stack_cache_is_bounded_and_returns_all_stacks)
{
    struct weft__stack_cache cache = {0};
    struct weft__stack *stacks[2 * WEFT__STACK_CACHE];
    CHECK_EQ(weft__stack_credit_take(SMALLEST, 2 * WEFT__STACK_CACHE), 0);
    for (unsigned i = 0; i < 2 * WEFT__STACK_CACHE; i++) {
        stacks[i] = weft__stack_get_slow(SMALLEST);
    }
    trim_to(0);
    for (unsigned i = 0; i < 2 * WEFT__STACK_CACHE; i++) {
        weft__stack_cache_put(&cache, stacks[i], SMALLEST);
    }
    CHECK(cache.count[SMALLEST] <= WEFT__STACK_CACHE);
    CHECK(cache.count[SMALLEST] > 0);
    CHECK_EQ(weft__stack_warm(), 2 * WEFT__STACK_CACHE - cache.count[SMALLEST]);
    CHECK(weft__stack_cache_get(&cache, SMALLEST) ==
          stacks[cache.count[SMALLEST]]); /* last in, first out */
    weft__stack_cache_put(&cache, stacks[cache.count[SMALLEST]], SMALLEST);
    weft__stack_cache_flush(&cache);
    CHECK_EQ(cache.count[SMALLEST], 0);
    CHECK(weft__stack_cache_get(&cache, SMALLEST) == NULL);
    CHECK_EQ(weft__stack_warm(), 2 * WEFT__STACK_CACHE);
    weft__stack_cache_deinit(&cache);
    weft__stack_credit_give(SMALLEST, 2 * WEFT__STACK_CACHE);
}

/* --- credits ----------------------------------------------------------------------------- */

/* With no memory for more, each issued credit is worth one stack. */
static size_t take_all_credits(unsigned class)
{
    size_t credits = 0;
    int err;
    weft__alloc_fail_after(1, true);
    while ((err = weft__stack_credit_take(class, 1)) == 0) {
        credits++;
    }
    CHECK_EQ(err, -ENOMEM);
    return credits;
}

TEST(issued_credits_never_exceed_available_stacks)
{
    struct weft__stack_totals totals;
    struct weft__stack_cache cache = {0};
    struct weft__stack *kept[WEFT__STACK_CACHE];
    for (unsigned i = 0; i < WEFT__STACK_CACHE; i++) {
        kept[i] = take_one(SMALLEST);
    }
    for (unsigned i = 0; i < WEFT__STACK_CACHE; i++) {
        weft__stack_cache_put(&cache, kept[i], SMALLEST);
    }
    weft__stack_credit_give(SMALLEST, WEFT__STACK_CACHE);
    CHECK_EQ(cache.count[SMALLEST], WEFT__STACK_CACHE); /* not reachable for other threads */
    size_t credits = take_all_credits(SMALLEST);
    weft__stack_totals(&totals);
    CHECK(credits > 0);
    CHECK(credits < totals.reserved_bytes / (weft__stack_bytes(SMALLEST) + WEFT__STACK_GUARD));
    struct weft__stack **stacks = malloc(credits * sizeof *stacks);
    CHECK(stacks != NULL);
    for (size_t i = 0; i < credits; i++) {
        stacks[i] = weft__stack_get_slow(SMALLEST);
        atomic_store(&stacks[i]->user, (void *)&stacks[i]);
    }
    for (size_t i = 0; i < credits; i++) {
        CHECK(atomic_load(&stacks[i]->user) == (void *)&stacks[i]); /* none was handed out twice */
        weft__stack_put_slow(stacks[i], SMALLEST);
    }
    CHECK_EQ(weft__stack_credit_take(SMALLEST, 1), -ENOMEM); /* freeing a stack gives no credit */
    weft__stack_credit_give(SMALLEST, credits);
    CHECK_EQ(weft__stack_credit_take(SMALLEST, credits), 0);
    CHECK_EQ(weft__stack_credit_take(SMALLEST, 1), -ENOMEM);
    weft__alloc_fail_after(0, false);
    CHECK_EQ(weft__stack_credit_take(SMALLEST, 1), 0); /* and there is memory again */
    weft__stack_credit_give(SMALLEST, credits + 1);
    weft__stack_cache_deinit(&cache);
    free(stacks);
}

TEST(cached_stacks_do_not_use_up_all_credits)
{
    enum { CACHES = 8 };
    static struct weft__stack_cache caches[CACHES];
    unsigned class = 2;
    CHECK_EQ(weft__stack_credit_take(class, 1), 0);
    weft__stack_credit_give(class, 1);
    size_t before = take_all_credits(class);
    weft__stack_credit_give(class, before);
    for (unsigned i = 0; i < CACHES; i++) {
        CHECK_EQ(weft__stack_credit_take(class, 1), 0);
        weft__stack_cache_put(&caches[i], weft__stack_get_slow(class), class);
        weft__stack_credit_give(class, 1);
    }
    size_t after = take_all_credits(class);
    printf("credits: %zu, with caches: %zu\n", before, after);
    CHECK(after >= before / 2);
    weft__stack_credit_give(class, after);
    for (unsigned i = 0; i < CACHES; i++) {
        weft__stack_cache_deinit(&caches[i]);
    }
    CHECK_EQ(take_all_credits(class), before);
    weft__stack_credit_give(class, before);
    weft__alloc_fail_after(0, false);
}

static size_t address_space(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages;
    CHECK(statm != NULL);
    CHECK_EQ(fscanf(statm, "%lu", &pages), 1);
    fclose(statm);
    return pages * page_bytes();
}

TEST(refused_credit_leaks_nothing)
{
    struct weft__stack_totals before, after;
    size_t credits = take_all_credits(SMALLEST);
    weft__stack_totals(&before);
    size_t space_before = address_space();
    for (int i = 0; i < 1000; i++) {
        weft__alloc_fail_after(1 + i % 2, true); /* the table of a chunk, or its stacks */
        CHECK_EQ(weft__stack_credit_take(SMALLEST, 1), -ENOMEM);
    }
    CHECK(address_space() < space_before + ((size_t)1 << 20));
    weft__alloc_fail_after(0, false);
    weft__stack_totals(&after);
    weft__stack_credit_give(SMALLEST, credits);
    CHECK_EQ(after.reserved_bytes, before.reserved_bytes);
    CHECK_EQ(after.chunks, before.chunks);
}

TEST(refused_large_reservation_falls_back_to_needed_size)
{
    struct weft__stack_totals before, after;
    unsigned class = 5;
    size_t stride = weft__stack_bytes(class) + WEFT__STACK_GUARD;
    CHECK_EQ(weft__stack_credit_take(class, 1), 0);
    size_t credits = take_all_credits(class) + 1;
    weft__stack_totals(&before);
    weft__alloc_fail_after(2, false); /* the stacks of the first, largest request */
    CHECK_EQ(weft__stack_credit_take(class, 2), 0);
    weft__alloc_fail_after(0, false);
    weft__stack_totals(&after);
    CHECK_EQ(after.reserved_bytes, before.reserved_bytes + 2 * stride);
    struct weft__stack *stack = weft__stack_get_slow(class);
    memset(weft__stack_bottom(stack, class), 1, weft__stack_bytes(class));
    weft__stack_put_slow(stack, class);
    weft__stack_credit_give(class, credits + 2);
}

/* --- all operations at once ------------------------------------------------------------------ */

#define HOLDERS 4
#define MAX_HELD 100

/* One thread's view: credits, the stacks it uses them for, and a cache. */
struct holder {
    struct weft__rand rand;
    struct weft__stack_cache cache;
    struct weft__stack *held[MAX_HELD];
    size_t credits, used;
    unsigned class;
    long steps, refused;
};

static void attach(struct holder *h)
{
    struct weft__stack *stack = weft__stack_cache_get(&h->cache, h->class);
    stack = stack ? stack : weft__stack_get_slow(h->class);
    atomic_store_explicit(&stack->user, h, memory_order_relaxed);
    *(size_t *)(void *)(stack->top - 64) = (size_t)stack;
    h->held[h->used++] = stack;
}

static void detach(struct holder *h)
{
    size_t i = weft__rand_next(&h->rand) % h->used;
    struct weft__stack *stack = h->held[i];
    CHECK(atomic_load_explicit(&stack->user, memory_order_relaxed) == h);
    CHECK(*(size_t *)(void *)(stack->top - 64) == (size_t)stack);
    h->held[i] = h->held[--h->used];
    weft__stack_cache_put(&h->cache, stack, h->class);
}

static void step(struct holder *h)
{
    size_t n = 1 + weft__rand_next(&h->rand) % 16;
    switch (weft__rand_next(&h->rand) % 16) {
    case 0:
        if (h->credits + n <= MAX_HELD) {
            int err = weft__stack_credit_take(h->class, n);
            CHECK(err == 0 || err == -ENOMEM);
            h->credits += err ? 0 : n;
            h->refused += err != 0;
        }
        break;
    case 1:
        if (h->credits - h->used >= n) {
            weft__stack_credit_give(h->class, n);
            h->credits -= n;
        }
        break;
    case 2:
        trim_to(n);
        break;
    case 3:
        weft__stack_cache_flush(&h->cache);
        break;
    case 4:
        weft__stack_cache_deinit(&h->cache); /* the owner is replaced by another */
        break;
    default:
        if (h->used < h->credits && (h->used == 0 || weft__rand_next(&h->rand) % 8)) {
            attach(h);
        } else if (h->used > 0) {
            detach(h);
        }
    }
}

static void *hold(void *arg)
{
    struct holder *h = arg;
    for (long i = 0; i < h->steps; i++) {
        step(h);
    }
    while (h->used) {
        detach(h);
    }
    weft__stack_cache_deinit(&h->cache);
    weft__stack_credit_give(h->class, h->credits);
    return NULL;
}

/* No memory for more stacks than the first two holders alone could use up. */
TEST(credit_holder_always_finds_stack)
{
    static struct holder holders[HOLDERS];
    pthread_t threads[HOLDERS];
    unsigned class = 6; /* 1 MiB: a first chunk holds seven */
    long refused = 0;
    CHECK_EQ(weft__stack_credit_take(class, MAX_HELD), 0);
    weft__stack_credit_give(class, MAX_HELD);
    size_t all = take_all_credits(class);
    weft__stack_credit_give(class, all);
    for (unsigned i = 0; i < HOLDERS; i++) {
        holders[i].class = class;
        holders[i].steps = check_scale(20000);
        weft__rand_seed(&holders[i].rand, check_seed() + i);
        CHECK_EQ(pthread_create(&threads[i], NULL, hold, &holders[i]), 0);
    }
    for (unsigned i = 0; i < HOLDERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        refused += holders[i].refused;
    }
    printf("refused: %ld\n", refused);
    CHECK_EQ(take_all_credits(class), all); /* every credit was returned */
    weft__stack_credit_give(class, all);
    weft__alloc_fail_after(0, false);
}
