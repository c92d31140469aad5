/* labels: valgrind */
#include <weft/chan.h>

#include "base/alloc.h"
#include "chan/select.h"
#include "sync/fixture.h"
#include "sync/mutex.h"

#define MS INT64_C(1000000)

static weft_chan *a, *b;
static weft_event event;

static weft_chan *channel(const char *name, size_t capacity)
{
    weft_chan *chan;
    const struct weft_chan_opts opts = {.name = name, .capacity = capacity};
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), &opts), 0);
    return chan;
}

static void open_two(size_t capacity)
{
    a = channel("a", capacity);
    b = channel("b", capacity);
    weft_event_init(&event, NULL);
}

static void close_two(void)
{
    weft_chan_destroy(a);
    weft_chan_destroy(b);
    weft_event_deinit(&event);
}

static int put(weft_chan *chan, int item)
{
    return weft_chan_send(chan, &item, 0);
}

TEST(select_executes_only_the_ready_case)
{
    int x = -1, y = -1, out = 5;
    open_two(1);
    struct weft_case cases[] = {weft_case_recv(a, &x), weft_case_recv(b, &y),
                                weft_case_event(&event)};
    CHECK_EQ(weft_select(cases, 3, 0), -ETIMEDOUT);
    CHECK_EQ(put(b, 0), 0);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 1);
    CHECK(cases[1].status == 0 && y == 0 && x == -1);
    CHECK_EQ(weft_select(cases, 3, 0), -ETIMEDOUT);
    weft_event_set(&event);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2);
    weft_event_reset(&event);

    struct weft_case sends[] = {weft_case_send(a, &out), weft_case_event(&event)};
    CHECK_EQ(weft_select(sends, 2, WEFT_FOREVER), 0);
    CHECK_EQ(weft_select(sends, 2, 0), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 0);
    CHECK_EQ(x, 5);
    close_two();
}

TEST(select_reports_closed_channel_as_ready_with_status)
{
    int x = 7;
    open_two(1);
    CHECK_EQ(put(a, 3), 0);
    weft_chan_close(a);
    struct weft_case recv = weft_case_recv(a, &x), send = weft_case_send(a, &x);
    CHECK_EQ(weft_select(&recv, 1, WEFT_FOREVER), 0);
    CHECK(recv.status == 0 && x == 3);
    CHECK_EQ(weft_select(&recv, 1, WEFT_FOREVER), 0);
    CHECK_EQ(recv.status, -EPIPE);
    CHECK_EQ(weft_select(&send, 1, WEFT_FOREVER), 0);
    CHECK_EQ(send.status, -EPIPE);
    close_two();
}

TEST(select_case_can_be_point_in_time)
{
    int x;
    open_two(0);
    int64_t soon = weft_after(2 * MS);
    struct weft_case cases[] = {weft_case_recv(a, &x), weft_case_at(weft_after(60000 * MS)),
                                weft_case_at(soon)};
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2);
    CHECK(weft_now() >= soon);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2); /* its deadline has passed */
    CHECK_EQ(weft_select(cases, 3, 0), 2);
    CHECK_EQ(weft_select(cases, 2, weft_after(2 * MS)), -ETIMEDOUT);
    close_two();
}

TEST(select_case_of_null_object_is_never_ready)
{
    int x;
    struct weft_case cases[] = {weft_case_recv(NULL, &x), weft_case_event(NULL),
                                weft_case_send(NULL, &x)};
    CHECK_EQ(weft_select(cases, 3, 0), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 3, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_select(NULL, 0, weft_after(MS)), -ETIMEDOUT);
}

/* --- waiting ------------------------------------------------------------------------ */

struct chooser {
    int x, y, out;
    struct weft_case cases[4];
    int chosen;
};

static void *chooses(void *arg)
{
    struct chooser *c = arg;
    c->x = c->y = -1;
    c->cases[0] = weft_case_recv(a, &c->x);
    c->cases[1] = weft_case_recv(b, &c->y);
    c->cases[2] = weft_case_event(&event);
    c->cases[3] = weft_case_send(a, &c->out);
    c->chosen = weft_select(c->cases, 4, WEFT_FOREVER);
    return NULL;
}

static weft_fiber choosing(struct chooser *c)
{
    return waiting_in(chooses, c);
}

static int chosen(weft_fiber fiber, struct chooser *c)
{
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return c->chosen;
}

static void *each_ends_a_wait(void *arg)
{
    struct chooser c = {.out = 9};
    int x;
    weft_fiber fiber = choosing(&c);
    CHECK_EQ(put(a, 1), 0);
    CHECK(chosen(fiber, &c) == 0 && c.x == 1 && c.y == -1 && c.cases[0].status == 0);
    fiber = choosing(&c);
    CHECK_EQ(put(b, 2), 0);
    CHECK(chosen(fiber, &c) == 1 && c.y == 2 && c.x == -1);
    fiber = choosing(&c);
    weft_event_set(&event);
    CHECK_EQ(chosen(fiber, &c), 2);
    weft_event_reset(&event);
    fiber = choosing(&c);
    CHECK_EQ(weft_chan_recv(a, &x, 0), 0);
    CHECK(chosen(fiber, &c) == 3 && x == 9);
    fiber = choosing(&c);
    weft_chan_close(b);
    CHECK(chosen(fiber, &c) == 1 && c.cases[1].status == -EPIPE);
    return arg;
}

TEST(each_kind_of_select_case_ends_wait)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        open_two(0);
        run_in_fiber(workers, each_ends_a_wait, NULL);
        close_two();
    }
}

static void *ended_from_outside(void *arg)
{
    struct chooser c;
    weft_fiber fiber = choosing(&c);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(put(a, 1), -ETIMEDOUT); /* no receiver waits any more */
    CHECK_EQ(chosen(fiber, &c), -EINTR);
    fiber = choosing(&c);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(put(b, 1), -ETIMEDOUT);
    CHECK_EQ(chosen(fiber, &c), -ECANCELED);
    CHECK(c.x == -1 && c.y == -1);
    return arg;
}

TEST(cancel_and_interrupt_end_select)
{
    open_two(0);
    run_in_fiber(1, ended_from_outside, NULL);
    close_two();
}

/* Both channels are offered an item before the fiber runs again: only the first offer is
 * accepted. */
static void *one_place_for_two(void *arg)
{
    struct chooser c;
    weft_fiber fiber = choosing(&c);
    CHECK_EQ(put(b, 2), 0);
    CHECK_EQ(put(a, 1), -ETIMEDOUT);
    CHECK(chosen(fiber, &c) == 1 && c.y == 2 && c.x == -1);
    return arg;
}

TEST(select_transfers_item_through_first_case_only)
{
    open_two(0);
    run_in_fiber(1, one_place_for_two, NULL);
    close_two();
}

static void *two_selects_meet(void *arg)
{
    struct chooser first = {.out = 1}, second = {.out = 2};
    weft_fiber one = choosing(&first), two;
    CHECK_EQ(weft_spawn(&two, chooses, &second, NULL), 0);
    CHECK_EQ(weft_join(two, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(one, NULL, WEFT_FOREVER), 0);
    if (first.chosen == 0) {
        CHECK(second.chosen == 3 && first.x == 2);
    } else {
        CHECK(first.chosen == 3 && second.chosen == 0 && second.x == 1);
    }
    return arg;
}

TEST(select_pairs_with_other_select_but_never_with_itself)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        open_two(0);
        int x, y = 4;
        struct weft_case both[] = {weft_case_recv(a, &x), weft_case_send(a, &y)};
        CHECK_EQ(weft_select(both, 2, weft_after(MS)), -ETIMEDOUT);
        run_in_fiber(workers, two_selects_meet, NULL);
        close_two();
    }
}

/* --- fairness ----------------------------------------------------------------------- */

enum { MANY = 100, ROUNDS = 4000 };

static void *counts(void *arg)
{
    weft_chan **chans = arg;
    struct weft_case cases[MANY];
    int item, count[MANY] = {0}, ready = 0;
    for (int i = 0; i < MANY; i++) {
        cases[i] = weft_case_recv(chans[i], &item);
        ready += weft_chan_length(chans[i]) > 0;
    }
    for (int i = 0; i < ROUNDS; i++) {
        int which = weft_select(cases, MANY, WEFT_FOREVER);
        CHECK(which >= 0 && item == which);
        CHECK_EQ(put(chans[which], which), 0);
        count[which]++;
    }
    for (int i = 0; i < MANY; i++) { /* no case starves; a fair share is ROUNDS / ready */
        CHECK_EQ(count[i] > 0, weft_chan_length(chans[i]) > 0);
        CHECK(count[i] == 0 || count[i] > ROUNDS / ready / 20);
    }
    return NULL;
}

TEST(select_starves_no_ready_case)
{
    weft_chan *chans[MANY];
    for (int some = 0; some < 3; some++) {
        for (int i = 0; i < MANY; i++) {
            chans[i] = channel(NULL, 1);
            bool ready = some == 0 ? true : some == 1 ? i % 10 == 3 : i < 2;
            CHECK_EQ(ready ? put(chans[i], i) : 0, 0);
        }
        run_in_fiber(1, counts, chans);
        counts(chans); /* a plain thread */
        for (int i = 0; i < MANY; i++) {
            weft_chan_destroy(chans[i]);
        }
    }
}

/* --- number of cases ------------------------------------------------------------------ */

static void *waits_for_the_last(void *arg)
{
    weft_chan **chans = arg;
    static struct weft_case cases[WEFT_SELECT_MAX];
    int item = -1;
    for (int i = 0; i < WEFT_SELECT_MAX; i++) {
        cases[i] = weft_case_recv(chans[i], &item);
    }
    CHECK_EQ(weft_select(cases, WEFT_SELECT_MAX, WEFT_FOREVER), WEFT_SELECT_MAX - 1);
    CHECK_EQ(item, 77);
    return arg;
}

static void *sends_to_the_last(void *arg)
{
    weft_chan **chans = arg;
    weft_fiber fiber = waiting_in(waits_for_the_last, chans);
    CHECK_EQ(put(chans[WEFT_SELECT_MAX - 1], 77), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(select_handles_thousands_of_cases)
{
    static weft_chan *chans[WEFT_SELECT_MAX];
    for (int i = 0; i < WEFT_SELECT_MAX; i++) {
        chans[i] = channel(NULL, 0);
    }
    run_in_fiber(1, sends_to_the_last, chans);
    int item;
    struct weft_case cases[9];
    for (int i = 0; i < 9; i++) {
        cases[i] = weft_case_recv(chans[i], &item);
    }
    weft__alloc_fail_after(1, false);
    CHECK_EQ(weft_select(cases, 9, WEFT_FOREVER), -ENOMEM);
    weft__alloc_fail_after(0, false);
    for (int i = 0; i < WEFT_SELECT_MAX; i++) {
        weft_chan_destroy(chans[i]);
    }
}

static void too_many(void *arg)
{
    static struct weft_case cases[WEFT_SELECT_MAX + 1];
    weft_select(cases, WEFT_SELECT_MAX + 1, WEFT_FOREVER);
    (void)arg;
}

static void no_such_kind(void *arg)
{
    struct weft_case wrong = weft_case_event(&event);
    memset(&wrong.kind, 0x7f, sizeof wrong.kind);
    weft_select(&wrong, 1, 0);
    (void)arg;
}

TEST(select_misuse_aborts_with_message)
{
    must_stop(too_many, NULL, "weft_select: 4001 cases are too many");
    must_stop(no_such_kind, NULL, "weft_select: unknown case kind");
}

/* --- selects that meet each other ---------------------------------------------------- */

static atomic_int sum;

static void *adds_up_two(void *arg)
{
    int open = 2, x;
    struct weft_case cases[] = {weft_case_recv(a, &x), weft_case_recv(b, &x)};
    while (open > 0) {
        int i = weft_select(cases, 2, WEFT_FOREVER);
        CHECK(i == 0 || i == 1);
        if (cases[i].status == 0) {
            atomic_fetch_add(&sum, x);
        } else {
            CHECK_EQ(cases[i].status, -EPIPE);
            cases[i].object = NULL;
            open--;
        }
    }
    return arg;
}

static void *sends_to_either(void *arg)
{
    for (int i = 1; i <= 100; i++) {
        struct weft_case cases[] = {weft_case_send(a, &i), weft_case_send(b, &i)};
        int which = weft_select(cases, 2, WEFT_FOREVER);
        CHECK(which >= 0);
        CHECK_EQ(cases[which].status, 0);
    }
    return arg;
}

TEST(threads_and_pools_select_on_same_channels)
{
    for (size_t capacity = 0; capacity < 2; capacity++) {
        open_two(capacity);
        atomic_store(&sum, 0);
        weft_pool *one = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "one"});
        weft_pool *two = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "two"});
        weft_fiber in_one, in_two;
        CHECK_EQ(weft_pool_submit(one, adds_up_two, NULL), 0);
        CHECK_EQ(weft_pool_submit(two, adds_up_two, NULL), 0);
        pthread_t adds = thread_open(adds_up_two, NULL);
        CHECK_EQ(weft_pool_spawn(one, &in_one, sends_to_either, NULL, NULL), 0);
        CHECK_EQ(weft_pool_spawn(two, &in_two, sends_to_either, NULL, NULL), 0);
        sends_to_either(NULL);
        CHECK_EQ(weft_join(in_one, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(in_two, NULL, WEFT_FOREVER), 0);
        weft_chan_close(a);
        weft_chan_close(b);
        pool_close(one);
        pool_close(two);
        thread_close(adds);
        CHECK_EQ(atomic_load(&sum), 3 * 5050);
        close_two();
    }
}

static void *on_owned(void *arg)
{
    int x = 1;
    const struct weft_chan_opts opts = {.owner = weft_pool_self()};
    CHECK_EQ(weft_chan_create(&a, sizeof(int), &opts), 0);
    b = channel("b", 0);
    weft_event_init(&event, NULL);
    struct chooser c;
    weft_fiber fiber = choosing(&c);
    CHECK_EQ(put(a, 3), 0);
    CHECK(chosen(fiber, &c) == 0 && c.x == 3);
    fiber = choosing(&c);
    CHECK_EQ(weft_chan_recv(a, &x, 0), 0);
    CHECK_EQ(chosen(fiber, &c), 3);
    close_two();
    return arg;
}

TEST(select_accepts_owned_channel_as_case)
{
    run_in_fiber(1, on_owned, NULL);
}

/* --- futures and conditions -------------------------------------------------------------- */

static weft_mutex mutex;
static weft_cond cond, other_cond;
static bool changed;

static void *waits_for_change(void *arg)
{
    int x, chosen_last = -1;
    struct weft_case cases[] = {weft_case_recv(a, &x), weft_case_cond(&cond, &mutex),
                                weft_case_cond(&other_cond, &mutex)};
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    while (!changed && chosen_last != 0) {
        chosen_last = weft_select(cases, 3, WEFT_FOREVER);
        CHECK(weft__mutex_is_mine(&mutex));
    }
    weft_mutex_unlock(&mutex);
    (void)arg;
    return (void *)(intptr_t)chosen_last;
}

static void *changes(void *arg)
{
    weft_fiber fiber;
    void *which;
    fiber = waiting_in(waits_for_change, NULL);
    weft_cond_signal(&cond); /* nothing has changed yet */
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0); /* free while the select waits */
    changed = true;
    weft_mutex_unlock(&mutex);
    weft_cond_signal(&other_cond);
    CHECK_EQ(weft_join(fiber, &which, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)which, 2);

    changed = false;
    fiber = waiting_in(waits_for_change, NULL);
    CHECK_EQ(put(a, 1), 0);
    CHECK_EQ(weft_join(fiber, &which, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)which, 0);
    return arg;
}

TEST(select_case_of_condition_reacquires_mutex)
{
    open_two(0);
    run_in_fiber(1, changes, NULL);
    close_two();
    weft_cond_deinit(&cond);
    weft_cond_deinit(&other_cond);
    weft_mutex_deinit(&mutex);
}

static void *completes(void *arg)
{
    CHECK_EQ(weft_future_complete(arg, &mutex), 0);
    return NULL;
}

static void *selects_futures(void *arg)
{
    weft_future *first, *second;
    CHECK_EQ(weft_future_create(&first, NULL), 0);
    CHECK_EQ(weft_future_create(&second, NULL), 0);
    struct weft_case cases[] = {weft_case_future(first), weft_case_future(second)};
    CHECK_EQ(weft_select(cases, 2, 0), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(NULL, completes, second, NULL), 0);
    CHECK_EQ(weft_select(cases, 2, WEFT_FOREVER), 1);
    CHECK_EQ(weft_select(cases, 2, 0), 1);
    weft_future_unref(first);
    weft_future_unref(second);
    return arg;
}

TEST(select_accepts_future_as_case)
{
    run_in_fiber(1, selects_futures, NULL);
    run_in_fiber(2, selects_futures, NULL);
}

/* --- stackless tasks ----------------------------------------------------------------------- */

struct selecting {
    struct weft__select select; /* first: the select is the stackless task */
    struct weft__node nodes[4];
    _Atomic(int) told; /* times */
};

static void selecting_told(struct weft__select *select)
{
    atomic_fetch_add(&((struct selecting *)(void *)select)->told, 1);
}

static int selecting_arm(struct selecting *body, struct weft_case *cases, size_t n,
                         int64_t deadline)
{
    atomic_store(&body->told, 0);
    return weft__select_arm(&body->select, cases, body->nodes, n, deadline, selecting_told);
}

/* Notified exactly once. */
static int selecting_finish(struct selecting *body)
{
    CHECK_EQ(atomic_load(&body->told), 1);
    return weft__select_finish(&body->select);
}

/* The deadline, or a cancel. */
static bool selecting_end(struct selecting *body, enum weft__reason reason)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    return weft__waiter_fire(&body->select.waiter, reason, &ready);
}

TEST(stackless_task_selects)
{
    struct selecting body;
    weft_future *future;
    int x = -1, out = 5, got = 0;
    open_two(0);
    CHECK_EQ(weft_future_create(&future, NULL), 0);
    struct weft_case cases[] = {weft_case_recv(a, &x), weft_case_send(b, &out),
                                weft_case_event(&event), weft_case_cond(&cond, NULL)};
    CHECK_EQ(selecting_arm(&body, cases, 4, 0), -ETIMEDOUT);
    CHECK_EQ(selecting_arm(&body, cases, 4, WEFT_FOREVER), -EINPROGRESS);
    CHECK_EQ(put(a, 3), 0);
    CHECK(selecting_finish(&body) == 0 && cases[0].status == 0 && x == 3);
    CHECK_EQ(put(a, 4), -ETIMEDOUT); /* the select has left */

    CHECK_EQ(selecting_arm(&body, cases, 4, WEFT_FOREVER), -EINPROGRESS);
    CHECK_EQ(weft_chan_recv(b, &got, 0), 0);
    CHECK(selecting_finish(&body) == 1 && got == 5);

    CHECK_EQ(selecting_arm(&body, cases, 4, WEFT_FOREVER), -EINPROGRESS);
    weft_event_set(&event);
    CHECK_EQ(put(a, 4), -ETIMEDOUT); /* the first wins */
    CHECK_EQ(selecting_finish(&body), 2);
    CHECK_EQ(selecting_arm(&body, cases, 4, WEFT_FOREVER), 2); /* at once */
    CHECK_EQ(atomic_load(&body.told), 0);
    weft_event_reset(&event);

    CHECK_EQ(selecting_arm(&body, cases, 4, WEFT_FOREVER), -EINPROGRESS);
    weft_cond_signal(&cond);
    CHECK_EQ(selecting_finish(&body), 3);

    cases[3] = weft_case_future(future);
    CHECK_EQ(selecting_arm(&body, cases, 4, WEFT_FOREVER), -EINPROGRESS);
    CHECK_EQ(weft_future_complete(future, NULL), 0);
    CHECK_EQ(selecting_finish(&body), 3);

    CHECK_EQ(selecting_arm(&body, cases, 3, WEFT_FOREVER), -EINPROGRESS);
    weft_chan_close(a);
    CHECK(selecting_finish(&body) == 0 && cases[0].status == -EPIPE);
    weft_future_unref(future);
    close_two();
}

TEST(stackless_select_ends_by_timeout_and_cancel)
{
    struct selecting body;
    int64_t deadline = weft_after(3600000 * MS);
    int x = -1;
    open_two(0);
    struct weft_case cases[] = {weft_case_recv(a, &x), weft_case_at(deadline - 1)};
    CHECK_EQ(selecting_arm(&body, cases, 1, deadline), -EINPROGRESS);
    CHECK_EQ(body.select.until, deadline);
    CHECK(selecting_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(selecting_finish(&body), -ETIMEDOUT);

    CHECK_EQ(selecting_arm(&body, cases, 2, deadline), -EINPROGRESS);
    CHECK_EQ(body.select.until, deadline - 1);
    CHECK(selecting_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(selecting_finish(&body), 1);

    CHECK_EQ(selecting_arm(&body, cases, 2, deadline), -EINPROGRESS);
    CHECK(selecting_end(&body, WEFT__REASON_CANCEL));
    CHECK(!selecting_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(selecting_finish(&body), -ECANCELED);
    CHECK(put(a, 1) == -ETIMEDOUT && x == -1);
    close_two();
}

static void selects_with_a_mutex(void *arg)
{
    struct selecting body;
    struct weft_case one = weft_case_cond(&cond, &mutex);
    selecting_arm(&body, &one, 1, WEFT_FOREVER);
    (void)arg;
}

TEST(stackless_select_of_condition_with_mutex_aborts)
{
    must_stop(selects_with_a_mutex, NULL, "a stackless task selects a condition with a mutex");
}

/* --- the object of an ended wait -------------------------------------------------------------- */

static struct weft_fiber_ended_wait ended;

static void *select_of_four(void *arg)
{
    weft_event *events = arg;
    struct weft_case cases[] = {weft_case_event(&events[0]), weft_case_event(&events[1]),
                                weft_case_event(NULL),
                                weft_case_at(weft_after(INT64_C(1000000000000)))};
    int err = weft_select(cases, 4, WEFT_FOREVER);
    CHECK_EQ(weft_fiber_ended_wait(&ended), 0);
    return (void *)(intptr_t)err;
}

static void *interrupt_selects(void *arg)
{
    weft_event events[2];
    char *text = NULL;
    size_t length;
    weft_event_init(&events[0], &(struct weft_sync_opts){.name = "gate"});
    weft_event_init(&events[1], NULL);
    for (int cancel = 0; cancel <= 1; cancel++) {
        weft_fiber fiber = waiting_in(select_of_four, events);
        FILE *out = open_memstream(&text, &length);
        CHECK_EQ(weft_dump(out, &(struct weft_dump_opts){.no_frames = true}), 0);
        CHECK_EQ(
            weft_dump(out, &(struct weft_dump_opts){.no_frames = true, .format = WEFT_DUMP_JSON}),
            0);
        fclose(out);
        CHECK(strstr(text, " gate and 2 others\n"));
        CHECK(strstr(text, "\"name\":\"gate\"},\"others\":2"));
        free(text);
        ended = (struct weft_fiber_ended_wait){0};
        end_wait(fiber, cancel);
        CHECK_STR(ended.what, "select");
        CHECK_STR(ended.name, "gate");
        CHECK(ended.object == &events[0]);
        CHECK_EQ(ended.others, 2); /* the case without an object is never ready */
    }
    weft_event_deinit(&events[0]);
    weft_event_deinit(&events[1]);
    return arg;
}

TEST(interrupted_select_reports_first_case_name_and_case_count)
{
    run_in_fiber(1, interrupt_selects, NULL);
}
