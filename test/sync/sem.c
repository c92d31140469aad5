/* labels: valgrind */
#include <weft/sync.h>

#include "sync/fixture.h"
#include "sync/sem.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_sem sem;
static atomic_int passed;

static void fresh(uint64_t permits)
{
    weft_sem_init(&sem, permits, &(struct weft_sync_opts){.name = "seats"});
    atomic_store(&passed, 0);
}

/* arg: the number of permits. */
static void *acquire(void *arg)
{
    int err = weft_sem_acquire(&sem, (uint64_t)(uintptr_t)arg, WEFT_FOREVER);
    if (err == 0) {
        atomic_fetch_add(&passed, 1);
    }
    return (void *)(intptr_t)err;
}

static weft_fiber waiting(uintptr_t n)
{
    return waiting_in(acquire, (void *)n);
}

TEST(semaphore_permits_are_counted)
{
    fresh(3);
    CHECK_EQ(weft_sem_acquire(&sem, 2, 0), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_acquire(&sem, 2, 0), -ETIMEDOUT);
    CHECK_EQ(weft_sem_acquire(&sem, 2, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_acquire(&sem, 1, 0), 0);
    weft_sem_release(&sem, 5);
    CHECK_EQ(weft_sem_permits(&sem), 5);
    weft_sem_deinit(&sem);
}

static void *in_order(void *arg)
{
    atomic_store(&passed, 0);
    weft_fiber big = waiting(3), small = waiting(1);
    weft_sem_release(&sem, 2);
    weft_yield();
    CHECK_EQ(atomic_load(&passed), 0);
    CHECK_EQ(weft_sem_acquire(&sem, 1, 0), -ETIMEDOUT); /* two are free, but a waiter is ahead */
    weft_sem_release(&sem, 1);
    joined(big, 0);
    CHECK_EQ(weft_sem_permits(&sem), 0);
    weft_sem_release(&sem, 1);
    joined(small, 0);
    return arg;
}

TEST(waiter_for_many_permits_is_never_overtaken)
{
    fresh(0);
    run_in_fiber(1, in_order, NULL);
    run_in_fiber(2, in_order, NULL);
    weft_sem_deinit(&sem);
}

static void *give_up(void *arg)
{
    bool cancel = arg != NULL;
    weft_fiber big = waiting(3), small = waiting(1), smaller = waiting(1);
    weft_sem_release(&sem, 2);
    end_wait(big, cancel);
    joined(small, 0);
    joined(smaller, 0);
    CHECK_EQ(weft_sem_permits(&sem), 0);
    return NULL;
}

TEST(semaphore_waiter_giving_up_lets_next_waiters_proceed)
{
    fresh(0);
    run_in_fiber(1, give_up, NULL);
    run_in_fiber(2, give_up, &sem);
    weft_sem_deinit(&sem);
}

TEST(stackless_task_waits_for_semaphore)
{
    struct body body, behind;
    fresh(1);
    struct weft__sem *s = weft__sem_of(&sem);
    body_arm(&body);
    CHECK(!weft__sem_arm(s, &body.node, 1));
    body_disarm(&body);
    body_arm(&body);
    body_arm(&behind);
    CHECK(weft__sem_arm(s, &body.node, 2));
    CHECK(weft__sem_arm(s, &behind.node, 1));
    weft_sem_release(&sem, 1);
    CHECK(!body_told(&body) && !body_told(&behind));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    weft__sem_finish(s, &body.node);
    CHECK(body_told(&behind));
    weft__sem_finish(s, &behind.node);
    CHECK_EQ(weft_sem_permits(&sem), 0);
    weft_sem_deinit(&sem);
}

static void *release_one(void *arg)
{
    weft_sem_release(&sem, 1);
    return arg;
}

TEST(threads_and_pools_share_one_semaphore)
{
    fresh(0);
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    weft_fiber in_a, in_b;
    CHECK_EQ(weft_pool_spawn(a, &in_a, acquire, (void *)2, NULL), 0);
    CHECK_EQ(weft_pool_spawn(b, &in_b, acquire, (void *)1, NULL), 0);
    pthread_t thread = thread_open(acquire, (void *)1);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_submit(i % 2 ? a : b, release_one, NULL), 0);
    }
    CHECK_EQ((intptr_t)thread_close(thread), 0);
    joined(in_a, 0);
    joined(in_b, 0);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(weft_sem_permits(&sem), 0);
    weft_sem_deinit(&sem);
}

/* The semaphore's memory is reused as soon as its only waiter has returned. */
static void *release_on_stack(void *arg)
{
    weft_sem_release(arg, 1);
    return NULL;
}

static void *wait_on_stack(void *arg)
{
    for (int i = 0; i < 200; i++) {
        weft_sem here = WEFT_SEM_INIT;
        CHECK_EQ(weft_spawn(NULL, release_on_stack, &here, NULL), 0);
        CHECK_EQ(weft_sem_acquire(&here, 1, WEFT_FOREVER), 0);
        memset(&here, 0xee, sizeof here);
    }
    return arg;
}

TEST(semaphore_can_live_on_stack_of_waiter)
{
    run_in_fiber(3, wait_on_stack, NULL);
}

static void *use_owned(void *arg)
{
    weft_sem_init(&sem, 0, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    atomic_store(&passed, 0);
    in_order(NULL);
    give_up(NULL);
    if (arg) {
        thread_close(thread_open(release_one, NULL));
    }
    weft_sem_deinit(&sem);
    return NULL;
}

TEST(owned_semaphore_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void *destroy_while_waited_on(void *arg)
{
    waiting(1);
    weft_sem_deinit(&sem);
    return arg;
}

static void overflows(void *arg)
{
    fresh(UINT64_C(1) << 62);
    weft_sem_release(arg, 1);
}

TEST(semaphore_misuse_aborts_with_message)
{
    fresh(0);
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "semaphore seats was destroyed while a fiber or thread waits on it");
    must_stop(overflows, &sem, "more than 2^62 permits");
}
