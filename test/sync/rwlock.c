/* labels: valgrind */
#include <weft/sync.h>

#include "lock/membarrier.h"
#include "sync/fixture.h"
#include "sync/rwlock.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_rwlock lock;
static long left, right; /* equal whenever a reader may read */
static char order[16];
static atomic_int ordered;

static void fresh(void)
{
    weft_rwlock_init(&lock, &(struct weft_sync_opts){.name = "book"});
    left = right = 0;
    memset(order, 0, sizeof order);
    atomic_store(&ordered, 0);
}

static void note(char who)
{
    order[atomic_fetch_add(&ordered, 1)] = who;
}

static void *read_once(void *arg)
{
    int err = weft_rwlock_read(&lock, arg ? *(int64_t *)arg : WEFT_FOREVER);
    if (err == 0) {
        CHECK_EQ(left, right);
        note('r');
        weft_rwlock_read_unlock(&lock);
    }
    return (void *)(intptr_t)err;
}

static void *write_once(void *arg)
{
    int err = weft_rwlock_write(&lock, arg ? *(int64_t *)arg : WEFT_FOREVER);
    if (err == 0) {
        left++;
        right++;
        note('w');
        weft_rwlock_write_unlock(&lock);
    }
    return (void *)(intptr_t)err;
}

static void *mixed(void *arg)
{
    for (int i = 0; i < 200; i++) {
        if ((i + (int)(intptr_t)arg) % 5 == 0) {
            CHECK_EQ(weft_rwlock_write(&lock, WEFT_FOREVER), 0);
            left++;
            if (i % 3 == 0) {
                weft_yield();
            }
            right++;
            weft_rwlock_write_unlock(&lock);
        } else {
            CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
            CHECK_EQ(left, right);
            if (i % 3 == 0) {
                weft_yield();
            }
            CHECK_EQ(left, right);
            weft_rwlock_read_unlock(&lock);
        }
    }
    return NULL;
}

static void *mixed_together(void *arg)
{
    weft_fiber fibers[6];
    for (intptr_t i = 0; i < 6; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], mixed, (void *)i, NULL), 0);
    }
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(readers_never_see_partial_write)
{
    fresh();
    run_in_fiber(1, mixed_together, NULL);
    run_in_fiber(3, mixed_together, NULL);
    CHECK_EQ(left, 2 * 6 * 40);
    weft_rwlock_deinit(&lock);
}

TEST(rwlock_try_fails_immediately_and_timed_lock_at_deadline)
{
    weft_rwlock zero = WEFT_RWLOCK_INIT;
    CHECK_EQ(weft_rwlock_read(&zero, 0), 0);
    CHECK_EQ(weft_rwlock_read(&zero, 0), 0);
    CHECK_EQ(weft_rwlock_write(&zero, 0), -ETIMEDOUT);
    CHECK_EQ(weft_rwlock_write(&zero, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_rwlock_read(&zero, 0), 0); /* a waiter that gave up blocks no other */
    for (int i = 0; i < 3; i++) {
        weft_rwlock_read_unlock(&zero);
    }
    CHECK_EQ(weft_rwlock_write(&zero, 0), 0);
    CHECK_EQ(weft_rwlock_read(&zero, 0), -ETIMEDOUT);
    CHECK_EQ(weft_rwlock_read(&zero, weft_after(MS)), -ETIMEDOUT);
    weft_rwlock_write_unlock(&zero);
    weft_rwlock_deinit(&zero);
}

static weft_fiber waiting(weft_fn fn)
{
    return waiting_in(fn, NULL);
}

/* A reader holds the lock and a writer waits: new readers queue after the writer, and so cannot
 * starve it. */
static void *writer_first(void *arg)
{
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
    weft_fiber writer = waiting(write_once), reader = waiting(read_once);
    CHECK_EQ(weft_rwlock_read(&lock, 0), -ETIMEDOUT);
    weft_rwlock_read_unlock(&lock);
    joined(writer, 0);
    joined(reader, 0);
    CHECK_STR(order, "wr");
    return arg;
}

/* A writer holds the lock; writers and readers wait, the readers for long: all readers precede the
 * next writer. */
static void *readers_in_turn(void *arg)
{
    CHECK_EQ(weft_rwlock_write(&lock, WEFT_FOREVER), 0);
    CHECK_EQ(weft__rwlock_holder((uint64_t)(uintptr_t)&lock), weft_self());
    weft_fiber fibers[] = {waiting(write_once), waiting(read_once), waiting(write_once),
                           waiting(read_once)};
    int64_t until = weft_after(3 * MS);
    while (weft_now() < until) {
    }
    weft_rwlock_write_unlock(&lock);
    for (int i = 0; i < 4; i++) {
        joined(fibers[i], 0);
    }
    CHECK_STR(order, "rrww");
    return arg;
}

TEST(rwlock_starves_neither_writers_nor_readers)
{
    fresh();
    run_in_fiber(1, writer_first, NULL);
    fresh();
    run_in_fiber(1, readers_in_turn, NULL);
    weft_rwlock_deinit(&lock);
}

static void *give_up(void *arg)
{
    bool cancel = arg != NULL;
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
    weft_fiber writer = waiting(write_once), reader = waiting(read_once);
    end_wait(writer, cancel);
    joined(reader, 0); /* it waited for the writer only */
    weft_rwlock_read_unlock(&lock);
    CHECK_EQ(weft_rwlock_write(&lock, 0), 0);
    reader = waiting(read_once);
    end_wait(reader, cancel);
    weft_rwlock_write_unlock(&lock);
    return NULL;
}

TEST(cancel_and_interrupt_end_rwlock_wait_and_waiters_proceed)
{
    fresh();
    run_in_fiber(1, give_up, NULL);
    run_in_fiber(2, give_up, &lock);
    weft_rwlock_deinit(&lock);
}

/* --- readers in slots -------------------------------------------------------------------- */

static uint64_t word_now(void)
{
    return atomic_load(&weft__rwlock_of(&lock)->word);
}

static bool shown(void)
{
    return atomic_load(&weft__reader_slot_self()->word) == &weft__rwlock_of(&lock)->word;
}

static void *shown_then_switched(void *arg)
{
    weft__rwlock_enter_slot(weft__rwlock_of(&lock));
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
    CHECK(shown());
    CHECK(word_now() < WEFT__READER_SLOT_UNIT);
    CHECK_EQ(weft_rwlock_read(&lock, 0), 0); /* a second read lock is counted */
    CHECK_EQ(word_now() / WEFT__READER_SLOT_UNIT, 1);
    weft_rwlock_read_unlock(&lock);
    CHECK(!shown());
    CHECK_EQ(weft_rwlock_write(&lock, 0), -ETIMEDOUT);
    weft_fiber writer = waiting(write_once);
    CHECK_EQ(word_now() / WEFT__READER_SLOT_UNIT, 1);
    CHECK_EQ(weft_rwlock_read(&lock, 0), -ETIMEDOUT);
    weft_rwlock_read_unlock(&lock);
    joined(writer, 0);
    CHECK_EQ(weft_rwlock_read(&lock, 0), 0);
    CHECK(shown());
    weft_yield(); /* alone: the fiber continues at once */
    weft_fiber reader = waiting(write_once);
    CHECK(!shown());
    weft_rwlock_read_unlock(&lock);
    joined(reader, 0);
    return arg;
}

static void *shown_against_a_thread(void *arg)
{
    weft__rwlock_enter_slot(weft__rwlock_of(&lock));
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
        CHECK(i > 0 || shown()); /* until a writer finds the slot empty */
        pthread_t writer = thread_open(write_once, NULL);
        while (!(word_now() & 2)) { /* until the writer waits */
            sched_yield();
        }
        CHECK_EQ(left, i);
        weft_rwlock_read_unlock(&lock);
        CHECK(!thread_close(writer));
        CHECK_EQ(left, i + 1);
        atomic_store(&ordered, 0);
    }
    return arg;
}

static void *many_calls(void *arg)
{
    for (int i = 0; i < 3000; i++) {
        CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
        weft_rwlock_read_unlock(&lock);
    }
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
    CHECK(shown());
    weft_rwlock_read_unlock(&lock);
    CHECK_EQ(weft_rwlock_write(&lock, 0), 0); /* a writer on the same thread keeps the slot */
    weft_rwlock_write_unlock(&lock);
    CHECK_EQ(weft_rwlock_read(&lock, 0), 0);
    CHECK(shown());
    weft_rwlock_read_unlock(&lock);
    return arg;
}

TEST(frequent_readers_use_reader_slots_and_block_writers)
{
    if (!weft__membarrier_is_usable()) {
        return;
    }
    fresh();
    run_in_fiber(1, shown_then_switched, NULL);
    weft_rwlock_deinit(&lock);
    fresh();
    run_in_fiber(1, shown_against_a_thread, NULL);
    weft_rwlock_deinit(&lock);
    for (unsigned i = 0; i < 2 * WEFT__READER_SLOTS; i++) { /* slots are freed */
        fresh();
        run_in_fiber(1, many_calls, NULL);
        weft_rwlock_deinit(&lock);
    }
}

static atomic_bool came;

static void *use_all_the_time(void *arg)
{
    while (!atomic_load_explicit(&came, memory_order_relaxed)) {
        CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
        weft_rwlock_read_unlock(&lock);
    }
    return arg;
}

static void *come_between(void *arg)
{
    weft_fiber hot;
    CHECK_EQ(weft_spawn(&hot, use_all_the_time, NULL, NULL), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_rwlock_write(&lock, WEFT_FOREVER), 0);
        left++;
        weft_yield();
        right++;
        weft_rwlock_write_unlock(&lock);
        weft_yield();
    }
    atomic_store(&came, true);
    CHECK_EQ(weft_join(hot, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(worker_gets_rwlock_used_constantly_by_other_worker)
{
    fresh();
    run_in_fiber(2, come_between, NULL);
    CHECK_EQ(left, 50);
    weft_rwlock_deinit(&lock);
}

TEST(stackless_task_locks_rwlock)
{
    enum { ME = 8 << 3 | WEFT__HOLDER_THREAD };
    struct body reader, writer;
    fresh();
    struct weft__rwlock *l = weft__rwlock_of(&lock);
    body_arm(&reader);
    body_arm(&writer);
    CHECK(!weft__rwlock_arm(l, &reader.node, 0));
    CHECK(weft__rwlock_arm(l, &writer.node, ME));
    CHECK(!body_told(&writer));
    weft_rwlock_read_unlock(&lock);
    CHECK(body_told(&writer));
    weft__rwlock_finish(l, &writer.node, ME);
    CHECK_EQ(weft_rwlock_read(&lock, 0), -ETIMEDOUT);

    body_disarm(&reader);
    body_arm(&reader);
    CHECK(weft__rwlock_arm(l, &reader.node, 0));
    CHECK(body_end(&reader, WEFT__REASON_TIMEOUT));
    weft__rwlock_finish(l, &reader.node, 0);
}

/* Neither an admitted reader nor one that gives up admits the readers queued after a writer. */
TEST(reader_finishing_its_wait_lets_no_reader_overtake_writer)
{
    struct body first, second, third, writer;
    fresh();
    struct weft__rwlock *l = weft__rwlock_of(&lock);
    uint64_t me = weft__holder_thread();
    CHECK_EQ(weft_rwlock_write(&lock, 0), 0);
    body_arm(&first);
    CHECK(weft__rwlock_arm(l, &first.node, 0));
    weft_rwlock_write_unlock(&lock);
    CHECK(body_told(&first));
    body_arm(&writer);
    CHECK(weft__rwlock_arm(l, &writer.node, me));
    body_arm(&second);
    CHECK(weft__rwlock_arm(l, &second.node, 0));
    CHECK_EQ(weft_sleep(weft_after(2000000)), 0); /* it is old */
    weft__rwlock_finish(l, &first.node, 0);
    CHECK(!body_told(&second));
    body_arm(&third);
    CHECK(weft__rwlock_arm(l, &third.node, 0));
    CHECK(body_end(&third, WEFT__REASON_TIMEOUT));
    weft__rwlock_finish(l, &third.node, 0);
    CHECK(!body_told(&second) && !body_told(&writer));

    weft_rwlock_read_unlock(&lock);
    CHECK(body_told(&writer) && !body_told(&second));
    weft__rwlock_finish(l, &writer.node, me);
    weft_rwlock_write_unlock(&lock);
    CHECK(body_told(&second));
    weft__rwlock_finish(l, &second.node, 0);
    weft_rwlock_read_unlock(&lock);
    weft_rwlock_deinit(&lock);
}

TEST(writer_giving_up_admits_readers_behind_writer)
{
    struct body reader, writer;
    fresh();
    struct weft__rwlock *l = weft__rwlock_of(&lock);
    CHECK_EQ(weft_rwlock_read(&lock, 0), 0);
    body_arm(&writer);
    CHECK(weft__rwlock_arm(l, &writer.node, weft__holder_thread()));
    body_arm(&reader);
    CHECK(weft__rwlock_arm(l, &reader.node, 0));
    CHECK(body_end(&writer, WEFT__REASON_CANCEL));
    CHECK(!body_told(&reader));
    weft__rwlock_finish(l, &writer.node, weft__holder_thread());
    CHECK(body_told(&reader));
    weft__rwlock_finish(l, &reader.node, 0);
    weft_rwlock_read_unlock(&lock);
    weft_rwlock_read_unlock(&lock);
    weft_rwlock_deinit(&lock);
}

TEST(threads_and_pools_share_one_rwlock)
{
    fresh();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_spawn(a, NULL, mixed, (void *)i, NULL), 0);
        CHECK_EQ(weft_pool_spawn(b, NULL, mixed, (void *)(i + 2), NULL), 0);
        threads[i] = thread_open(mixed, (void *)(i + 4));
    }
    thread_close(threads[0]);
    thread_close(threads[1]);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(left, 6 * 40);
    weft_rwlock_deinit(&lock);
}

static void *use_owned(void *arg)
{
    fresh();
    weft_rwlock_init(&lock, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    weft__rwlock_enter_slot(weft__rwlock_of(&lock)); /* has no effect here */
    mixed_together(NULL);
    writer_first(NULL);
    if (arg) {
        thread_close(thread_open(read_once, NULL));
    }
    weft_rwlock_deinit(&lock);
    return NULL;
}

TEST(owned_rwlock_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

/* --- caller bugs ---------------------------------------------------------------------- */

static void *unlocks_unread(void *arg)
{
    weft_rwlock_read_unlock(&lock);
    return arg;
}

static void *unlocks_unwritten(void *arg)
{
    weft_rwlock_write_unlock(&lock);
    return arg;
}

static void *writes_twice(void *arg)
{
    CHECK_EQ(weft_rwlock_write(&lock, WEFT_FOREVER), 0);
    weft_rwlock_write(&lock, WEFT_FOREVER);
    return arg;
}

static void *destroys_while_waited_on(void *arg)
{
    CHECK_EQ(weft_rwlock_write(&lock, WEFT_FOREVER), 0);
    waiting(read_once);
    weft_rwlock_deinit(&lock);
    return arg;
}

static void *destroys_locked(void *arg)
{
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_FOREVER), 0);
    weft_rwlock_deinit(&lock);
    return arg;
}

static void *destroys_shown(void *arg)
{
    weft__rwlock_enter_slot(weft__rwlock_of(&lock));
    return destroys_locked(arg);
}

TEST(rwlock_misuse_aborts_with_message)
{
    fresh();
    must_stop_in_fiber(unlocks_unread, NULL,
                       "rwlock book, which has no readers, was unlocked by a reader");
    must_stop_in_fiber(unlocks_unwritten, NULL, "unlocks rwlock book, which is held by nobody");
    must_stop_in_fiber(writes_twice, NULL, "locks rwlock book, which it holds already");
    must_stop_in_fiber(destroys_while_waited_on, NULL,
                       "rwlock book was destroyed while a fiber or thread waits on it");
    must_stop_in_fiber(destroys_locked, NULL, "rwlock book was destroyed while it is locked");
    must_stop_in_fiber(destroys_shown, NULL, "rwlock book was destroyed while it is locked");
}
