#include "context/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "context/guard.h"
#include "lock/lock.h"

#define FIRST_CHUNK ((size_t)8 << 20) /* bytes of address space */
#define LARGEST_CHUNK ((size_t)16 << 30)
#define CARVE_BATCH 32u
#define LOCKED_CHUNK ((size_t)2 << 20) /* where mlockall would make a whole chunk resident */

/* Never freed, so that the fault handler can walk the list without a lock. */
struct chunk {
    struct chunk *older;
    struct chunk *next_open; /* under the class's lock: the next chunk with stacks not carved yet */
    char *base;
    size_t stride, count;
    size_t carved; /* under the class's lock */
    unsigned class;
    bool *canaries; /* after the stacks, one each: written by the user of the stack */
    struct weft__stack stacks[];
};

struct stack_class {
    struct weft__lock lock;
    /* under lock */
    struct weft__stack *warm, *cold;
    size_t warm_count;
    size_t low_water;   /* fewest warm stacks since weft__stack_low_water_begin */
    size_t reserved;    /* stacks in all chunks */
    size_t issued;      /* credits in circulation */
    size_t withheld;    /* stacks that caches may keep or that are in transit */
    struct chunk *open; /* chunks with stacks that were never used */
    size_t next_chunk_bytes;
    bool refused; /* the last reservation failed */
};

static struct stack_class classes[WEFT__STACK_CLASSES];
static _Atomic(struct chunk *) chunks;
static _Atomic(int) guard_limit = WEFT__GUARD_INSTALL;
static _Atomic(int) weakest = -1;
static _Atomic(size_t) warm_total;
static _Atomic(bool) locked; /* the process locks its memory: keep chunks small */

int weft__stack_class(size_t bytes)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        if (bytes <= weft__stack_bytes(class)) {
            return (int)class;
        }
    }
    return -EINVAL;
}

static void push(struct weft__stack **list, struct weft__stack *stack)
{
    atomic_store_explicit(&stack->user, *list, memory_order_relaxed);
    *list = stack;
}

static struct weft__stack *pop(struct weft__stack **list)
{
    struct weft__stack *stack = *list;
    if (stack) {
        *list = atomic_load_explicit(&stack->user, memory_order_relaxed);
    }
    return stack;
}

/* --- reserving --------------------------------------------------------- */

/* Reserves address space for `count` stacks; NULL if the kernel refuses. */
static struct chunk *chunk_create(unsigned class, size_t count)
{
    size_t stride = weft__stack_bytes(class) + WEFT__STACK_GUARD;
    size_t table = sizeof(struct chunk) + count * (sizeof(struct weft__stack) + sizeof(bool));
    struct chunk *chunk = weft__map(table);
    if (!chunk) {
        return NULL;
    }
    char *base = weft__map(count * stride);
    if (!base) {
        weft__unmap(chunk, table);
        return NULL;
    }
    /* Huge pages would make 2 MiB of every touched stack resident. */
    madvise(base, count * stride, MADV_NOHUGEPAGE);
    madvise(chunk, table, MADV_NOHUGEPAGE);
    chunk->base = base;
    chunk->stride = stride;
    chunk->count = count;
    chunk->class = class;
    chunk->canaries = (bool *)(void *)&chunk->stacks[count];
    return chunk;
}

static void chunk_publish(struct chunk *chunk)
{
    chunk->older = atomic_load_explicit(&chunks, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&chunks, &chunk->older, chunk,
                                                  memory_order_release, /* pairs: stack_of_guard */
                                                  memory_order_relaxed)) {
    }
}

/* Reserves at least `need` more stacks, more where address space is plentiful. Strict overcommit
 * and RLIMIT_AS refuse large reservations, not small ones: it then asks for no more than is needed,
 * and halves that until the kernel agrees. The rest of the program has to live on what is left. */
static int reserve_locked(struct stack_class *c, unsigned class, size_t need)
{
    size_t stride = weft__stack_bytes(class) + WEFT__STACK_GUARD;
    while (need > 0) {
        if (c->next_chunk_bytes == 0) {
            c->next_chunk_bytes = FIRST_CHUNK;
        }
        bool small = atomic_load_explicit(&locked, memory_order_relaxed);
        size_t bytes = small ? LOCKED_CHUNK : c->next_chunk_bytes;
        size_t count = bytes / stride ? bytes / stride : 1;
        struct chunk *chunk;
        while (!(chunk = chunk_create(class, count))) {
            if (count == 1) {
                c->refused = true;
                return -ENOMEM;
            }
            count = need < count / 2 ? need : count / 2;
        }
        chunk_publish(chunk);
        chunk->next_open = c->open;
        c->open = chunk;
        c->reserved += count;
        c->refused = false;
        c->next_chunk_bytes = count * stride;
        if (c->next_chunk_bytes < LARGEST_CHUNK) {
            c->next_chunk_bytes *= 2;
        }
        need = need > count ? need - count : 0;
    }
    return 0;
}

int weft__stack_credit_take(unsigned class, size_t n)
{
    struct stack_class *c = &classes[class];
    int err = 0;
    weft__lock(&c->lock);
    size_t wanted = c->issued + n + c->withheld;
    if (wanted > c->reserved) {
        err = reserve_locked(c, class, wanted - c->reserved);
    }
    if (!err) {
        c->issued += n;
    }
    weft__unlock(&c->lock);
    return err;
}

void weft__stack_credit_give(unsigned class, size_t n)
{
    struct stack_class *c = &classes[class];
    weft__lock(&c->lock);
    WEFT__ASSERT(c->issued >= n);
    c->issued -= n;
    weft__unlock(&c->lock);
}

/* --- get and put ------------------------------------------------------------- */

static void warm_changed_locked(struct stack_class *c, int by)
{
    c->warm_count += (size_t)by;
    c->low_water = c->warm_count < c->low_water ? c->warm_count : c->low_water;
    atomic_fetch_add_explicit(&warm_total, (size_t)by, memory_order_relaxed);
}

/* Takes stacks of the open chunk that were never used: one, and as many more as will soon be
 * needed, so that one system call guards them all. The additional ones are unavailable to every
 * thread until then, and so count in `withheld`. */
static size_t carve_locked(struct stack_class *c, struct weft__stack **first)
{
    struct chunk *chunk = c->open;
    if (!chunk) {
        return 0;
    }
    size_t n = 1 + chunk->carved / 2;
    size_t spare = c->reserved - c->issued - c->withheld;
    size_t left = chunk->count - chunk->carved;
    n = n < CARVE_BATCH ? n : CARVE_BATCH;
    n = n <= spare ? n : spare + 1;
    n = n < left ? n : left;
    *first = &chunk->stacks[chunk->carved];
    for (size_t i = 0; i < n; i++) {
        chunk->carved++;
        (*first)[i].top = chunk->base + chunk->carved * chunk->stride;
    }
    if (chunk->carved == chunk->count) {
        c->open = chunk->next_open;
    }
    c->withheld += n - 1;
    return n;
}

static void note_weakest(enum weft__guard way)
{
    int seen = atomic_load_explicit(&weakest, memory_order_relaxed);
    while ((int)way > seen &&
           !atomic_compare_exchange_weak_explicit(&weakest, &seen, (int)way, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* Whether this stack has a canary. Not in the stack's own record, which is kept small; and the page
 * that holds the flags is never touched where no canary was needed. */
static bool *canary_of(const struct weft__stack *stack)
{
    struct chunk *chunk = atomic_load_explicit(&chunks, memory_order_acquire); /* pairs: publish */
    while (stack < chunk->stacks || stack >= chunk->stacks + chunk->count) {
        chunk = chunk->older;
    }
    return &chunk->canaries[stack - chunk->stacks];
}

/* Once one stack needed a canary, every stack that is handed out gets one. */
static bool canaries_in_use(void)
{
    return atomic_load_explicit(&weakest, memory_order_relaxed) == WEFT__GUARD_CANARY;
}

static void guard(const struct weft__stack *stack, unsigned class)
{
    enum weft__guard limit =
        (enum weft__guard)atomic_load_explicit(&guard_limit, memory_order_relaxed);
    enum weft__guard wish = weft__guard_best() > limit ? weft__guard_best() : limit;
    char *bottom = weft__stack_bottom(stack, class);
    enum weft__guard way = weft__guard_place(wish, bottom - WEFT__STACK_GUARD, bottom);
    note_weakest(way);
    if (way == WEFT__GUARD_CANARY) {
        *canary_of(stack) = true;
    }
    if (wish == WEFT__GUARD_INSTALL && way != wish) {
        atomic_store_explicit(&locked, true, memory_order_relaxed);
    }
    weft__san_register_stack(bottom, stack->top);
}

/* Guards n adjacent stacks. */
static void guard_all(const struct weft__stack *stacks, size_t n, unsigned class)
{
    struct iovec guards[CARVE_BATCH];
    bool markers = n > 1 && weft__guard_best() == WEFT__GUARD_INSTALL &&
                   !weft__san_valgrind && /* which does not know the call; probed with the guard */
                   atomic_load_explicit(&guard_limit, memory_order_relaxed) == WEFT__GUARD_INSTALL;
    for (size_t i = 0; i < n && markers; i++) {
        char *bottom = weft__stack_bottom(&stacks[i], class);
        guards[i] = (struct iovec){bottom - WEFT__STACK_GUARD, WEFT__STACK_GUARD};
    }
    if (markers && weft__guard_install_many(guards, n)) {
        note_weakest(WEFT__GUARD_INSTALL);
        for (size_t i = 0; i < n; i++) {
            weft__san_register_stack(weft__stack_bottom(&stacks[i], class), stacks[i].top);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        guard(&stacks[i], class);
    }
}

/* Guards stacks that were never used; returns the first and makes the others cold ones. */
static struct weft__stack *carve(struct weft__stack *stacks, size_t n, unsigned class)
{
    struct stack_class *c = &classes[class];
    guard_all(stacks, n, class);
    if (n > 1) {
        weft__lock(&c->lock);
        for (size_t i = n - 1; i > 0; i--) {
            push(&c->cold, &stacks[i]);
        }
        c->withheld -= n - 1;
        weft__unlock(&c->lock);
    }
    return stacks;
}

struct weft__stack *weft__stack_get_slow(unsigned class)
{
    struct stack_class *c = &classes[class];
    weft__lock(&c->lock);
    struct weft__stack *stack = pop(&c->warm);
    size_t carved = 0;
    if (stack) {
        warm_changed_locked(c, -1);
    } else if (!(stack = pop(&c->cold))) {
        carved = carve_locked(c, &stack);
    }
    weft__unlock(&c->lock);
    WEFT__ASSERT(stack); /* the caller holds a credit */
    if (carved) {
        stack = carve(stack, carved, class);
    } else if (canaries_in_use()) {
        char *bottom = weft__stack_bottom(stack, class); /* a trim may have erased it */
        weft__guard_place(WEFT__GUARD_CANARY, bottom, bottom);
        *canary_of(stack) = true;
    }
    return stack;
}

static void check_canary(const struct weft__stack *stack, unsigned class)
{
    if (!canaries_in_use() || !*canary_of(stack)) {
        return; /* it was in use when the first canary was needed */
    }
    WEFT__REQUIRE(weft__guard_canary_intact(weft__stack_bottom(stack, class)),
                  "a fiber overflowed its stack of %zu bytes (found by its canary)",
                  weft__stack_bytes(class));
}

void weft__stack_put_slow(struct weft__stack *stack, unsigned class)
{
    struct stack_class *c = &classes[class];
    check_canary(stack, class);
    weft__lock(&c->lock);
    push(&c->warm, stack);
    warm_changed_locked(c, 1);
    weft__unlock(&c->lock);
}

/* How many stacks of a class one cache may keep. */
static unsigned cache_capacity(unsigned class)
{
    return (weft__stack_batch(class) + 1) / 2;
}

/* The first stack of a class that a cache keeps needs room in the reservation: once kept, holders
 * of credits cannot get it. At most half of all stacks: where no more can be reserved, fibers have
 * priority over caches. */
static bool may_cache(struct weft__stack_cache *cache, unsigned class)
{
    if (cache->may_cache[class]) {
        return true;
    }
    struct stack_class *c = &classes[class];
    size_t room = cache_capacity(class);
    weft__lock(&c->lock);
    size_t kept = c->withheld + room;
    size_t wanted = kept + (c->issued > kept ? c->issued : kept);
    if (wanted <= c->reserved ||
        (!c->refused && reserve_locked(c, class, wanted - c->reserved) == 0)) {
        c->withheld += room;
        cache->may_cache[class] = true;
    }
    weft__unlock(&c->lock);
    return cache->may_cache[class];
}

void weft__stack_cache_put(struct weft__stack_cache *cache, struct weft__stack *stack,
                           unsigned class)
{
    if (cache->count[class] >= cache_capacity(class) || !may_cache(cache, class) ||
        canaries_in_use()) {
        weft__stack_put_slow(stack, class);
        return;
    }
    push(&cache->free[class], stack);
    cache->count[class]++;
}

void weft__stack_cache_fill(struct weft__stack_cache *cache, unsigned class)
{
    struct stack_class *c = &classes[class];
    struct weft__stack *stack;
    if (weft__stack_warm() == 0 || canaries_in_use() || !may_cache(cache, class)) {
        return;
    }
    unsigned n = 0;
    weft__lock(&c->lock);
    for (; n < (cache_capacity(class) + 1) / 2 && (stack = pop(&c->warm)); n++) {
        __builtin_prefetch(stack->top - WEFT__CACHE_LINE, 1);
        push(&cache->free[class], stack);
    }
    warm_changed_locked(c, -(int)n);
    weft__unlock(&c->lock);
    cache->count[class] = (uint8_t)(cache->count[class] + n);
}

void weft__stack_cache_flush(struct weft__stack_cache *cache)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        struct weft__stack *stack;
        while ((stack = weft__stack_cache_get(cache, class))) {
            weft__stack_put_slow(stack, class);
        }
    }
}

void weft__stack_cache_deinit(struct weft__stack_cache *cache)
{
    weft__stack_cache_flush(cache);
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        if (cache->may_cache[class]) {
            cache->may_cache[class] = false;
            weft__lock(&classes[class].lock);
            classes[class].withheld -= cache_capacity(class);
            weft__unlock(&classes[class].lock);
        }
    }
}

static void purge(const struct weft__stack *stack, unsigned class)
{
    char *bottom = weft__stack_bottom(stack, class);
    madvise(bottom, weft__stack_bytes(class), MADV_DONTNEED);
}

size_t weft__stack_warm(void)
{
    return atomic_load_explicit(&warm_total, memory_order_relaxed);
}

/* A stack that is in neither list counts in `withheld`: only one that no credit may ask for
 * meanwhile. */
static struct weft__stack *begin_purge(struct stack_class *c, size_t keep, bool unused)
{
    weft__lock(&c->lock);
    bool spare = c->issued + c->withheld < c->reserved;
    bool more = spare && (unused ? c->low_water : c->warm_count) > keep;
    struct weft__stack *stack = more ? pop(&c->warm) : NULL;
    if (stack) {
        c->low_water -= c->low_water > 0; /* it was not in use */
        warm_changed_locked(c, -1);
        c->withheld++;
    }
    weft__unlock(&c->lock);
    return stack;
}

static size_t trim(size_t keep, size_t most, bool unused)
{
    size_t trimmed = 0;
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        struct stack_class *c = &classes[class];
        struct weft__stack *stack;
        while (trimmed < most && (stack = begin_purge(c, keep, unused))) {
            purge(stack, class); /* without the lock: a system call */
            weft__lock(&c->lock);
            push(&c->cold, stack);
            c->withheld--;
            weft__unlock(&c->lock);
            trimmed++;
        }
    }
    return trimmed;
}

size_t weft__stack_trim(size_t keep, size_t most)
{
    return trim(keep, most, false);
}

size_t weft__stack_trim_unused(size_t keep, size_t most)
{
    return trim(keep, most, true);
}

void weft__stack_low_water_begin(void)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        weft__lock(&classes[class].lock);
        classes[class].low_water = classes[class].warm_count;
        weft__unlock(&classes[class].lock);
    }
}

bool weft__stack_low_water_passed(void)
{
    bool passed = false;
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        weft__lock(&classes[class].lock);
        passed = passed || classes[class].low_water != classes[class].warm_count;
        weft__unlock(&classes[class].lock);
    }
    return passed;
}

/* --- queries ----------------------------------------------------------------- */

size_t weft__stack_high_water(const struct weft__stack *stack, unsigned class)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char present[64];
    for (char *at = weft__stack_bottom(stack, class); at < stack->top;) {
        size_t pages = (size_t)(stack->top - at) / page;
        if (pages > sizeof present) {
            pages = sizeof present;
        }
        if (mincore(at, pages * page, present) != 0) {
            return 0;
        }
        for (size_t i = 0; i < pages; i++) {
            if (present[i] & 1) {
                return (size_t)(stack->top - at) - i * page;
            }
        }
        at += pages * page;
    }
    return 0;
}

const struct weft__stack *weft__stack_of_guard(const void *address, unsigned *class)
{
    const char *at = address;
    /* pairs: chunk_publish */
    struct chunk *chunk = atomic_load_explicit(&chunks, memory_order_acquire);
    for (; chunk; chunk = chunk->older) {
        if (at >= chunk->base && at < chunk->base + chunk->count * chunk->stride) {
            size_t index = (size_t)(at - chunk->base) / chunk->stride;
            size_t offset = (size_t)(at - chunk->base) % chunk->stride;
            *class = chunk->class;
            return offset < WEFT__STACK_GUARD ? &chunk->stacks[index] : NULL;
        }
    }
    return NULL;
}

void weft__stack_totals(struct weft__stack_totals *out)
{
    memset(out, 0, sizeof *out);
    struct chunk *chunk = atomic_load_explicit(&chunks, memory_order_acquire);
    for (; chunk; chunk = chunk->older) {
        weft__lock(&classes[chunk->class].lock);
        out->carved += chunk->carved;
        weft__unlock(&classes[chunk->class].lock);
        out->reserved_bytes += chunk->count * chunk->stride;
        out->chunks++;
    }
    int way = atomic_load_explicit(&weakest, memory_order_relaxed);
    out->guard = way < 0 ? weft__guard_best() : (enum weft__guard)way;
}

void weft__stack_limit_guard(enum weft__guard best)
{
    atomic_store_explicit(&guard_limit, (int)best, memory_order_relaxed);
}

/* --- forks --------------------------------------------------------------- */

void weft__stack_fork_prepare(void)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        weft__lock(&classes[class].lock);
    }
}

/* In the child too: the common lists are as consistent as before; the stacks of the parent's fibers
 * stay unused. */
void weft__stack_fork_done(void)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        weft__unlock(&classes[class].lock);
    }
}
