/* A dispatcher that gets posts in quick succession spins for the next one before it sleeps. An idle
 * dispatcher does not. */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cpu.h"
#include "dispatch/dispatcher.h"
#include "dispatch/fixture.h"

#define SECOND INT64_C(1000000000)

struct request {
    struct weft_post post; /* first */
    weft_event done;
    void (*fn)(struct request *request);
    int value;
    clockid_t clock;
};

static void runs_request(struct weft_post *post)
{
    struct request *request = (struct request *)(void *)post;
    if (request->fn) {
        request->fn(request);
    }
    weft_event_set(&request->done);
}

/* Calls fn on the dispatcher's thread, and waits for it. */
static struct request ask(weft_group *group, void (*fn)(struct request *), int value)
{
    struct request request = {.post.fn = runs_request, .fn = fn, .value = value};
    weft_event_init(&request.done, NULL);
    CHECK_EQ(weft_group_submit(group, &request.post), 0);
    CHECK_EQ(weft_event_wait(&request.done, WEFT_FOREVER), 0);
    weft_event_deinit(&request.done);
    return request;
}

static struct weft__spin *spin_of_self(void)
{
    return &weft_dispatcher_self()->rounds.spin;
}

static void asks_score(struct request *request)
{
    request->value = spin_of_self()->score;
}

static void sets_score(struct request *request)
{
    spin_of_self()->score = (int8_t)request->value;
}

static void asks_clock(struct request *request)
{
    CHECK_EQ(pthread_getcpuclockid(pthread_self(), &request->clock), 0);
}

/* --- what causes spinning -------------------------------------------------------------------- */

/* The dispatcher may be preempted in any one spin, but not in all. */
TEST(spinning_dispatcher_catches_handoff)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.spin_ns = SECOND});
    weft_group *group = make_group(d, "g");
    bool hit = weft__cpu_usable() == 1;
    while (!hit) {
        ask(group, sets_score, 1);
        hit = ask(group, asks_score, 0).value == 2;
    }
    stop_dispatcher(d);
}

static void slept(struct weft__spin *spin, int times, int64_t ns)
{
    for (int i = 0; i < times; i++) {
        weft__spin_slept(spin, ns);
    }
}

TEST(short_sleeps_start_spin_trial_and_failures_delay_next_trial)
{
    struct weft__spin spin = {0};
    slept(&spin, WEFT__SPIN_TRIAL - 1, WEFT__SPIN_SHORT_NS);
    slept(&spin, 1, WEFT__SPIN_SHORT_NS + 1);
    slept(&spin, WEFT__SPIN_TRIAL - 1, WEFT__SPIN_SHORT_NS);
    CHECK(!weft__spin_is_worthwhile(&spin));
    slept(&spin, 1, WEFT__SPIN_SHORT_NS);
    CHECK(weft__spin_is_worthwhile(&spin));
    for (unsigned failures = 1; failures < 2 * WEFT__SPIN_DOUBLINGS; failures++) {
        while (weft__spin_is_worthwhile(&spin)) {
            weft__spin_missed(&spin);
        }
        unsigned shift = failures < WEFT__SPIN_DOUBLINGS ? failures : WEFT__SPIN_DOUBLINGS;
        slept(&spin, (int)(WEFT__SPIN_TRIAL << shift) - 1, 0);
        CHECK(!weft__spin_is_worthwhile(&spin));
        slept(&spin, 1, 0);
        CHECK(weft__spin_is_worthwhile(&spin));
    }
    for (int i = 0; i <= WEFT__SPIN_MAX_SCORE; i++) { /* which a full score compensates */
        weft__spin_hit(&spin);
    }
    CHECK_EQ(spin.failures, 0);
}

static void sets_promise(struct request *request)
{
    spin_of_self()->short_waits = (uint16_t)request->value;
}

static void asks_promise(struct request *request)
{
    request->value = spin_of_self()->short_waits;
}

/* The length of its sleeps depends on the machine. But a long sleep cancels the score of the short
 * ones before it. */
TEST(dispatcher_sleep_lengths_control_spinning)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    bool counted = weft__cpu_usable() == 1;
    while (!counted) {
        ask(group, sets_promise, 1);
        usleep(5000); /* does not wait for an event: makes the sleep long */
        counted = ask(group, asks_promise, 0).value == 0;
    }
    stop_dispatcher(d);
}

static void *naps(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_sleep(weft_after(10000)), 0);
    }
    CHECK_EQ(spin_of_self()->score, 0);
    CHECK_EQ(spin_of_self()->short_waits, 0);
    return NULL;
}

TEST(timers_do_not_cause_spinning)
{
    run_in_group(naps, NULL);
}

static void *echoes(void *arg)
{
    const int *ends = arg;
    char byte;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_write(ends[0], &byte, 1, WEFT_FOREVER), 1);
    }
    CHECK_EQ(spin_of_self()->score, 0);
    CHECK_EQ(spin_of_self()->short_waits, 0);
    return NULL;
}

static void *calls_out(void *arg)
{
    char byte = 1;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(write(*(int *)arg, &byte, 1), 1);
        CHECK_EQ(read(*(int *)arg, &byte, 1), 1);
    }
    return NULL;
}

TEST(io_does_not_cause_spinning)
{
    int ends[2];
    pthread_t thread;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(pthread_create(&thread, NULL, calls_out, &ends[1]), 0);
    run_in_group(echoes, ends);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    close(ends[0]);
    close(ends[1]);
}

/* --- CPU cost --------------------------------------------------------------------------------- */

static int64_t cpu_of(clockid_t clock)
{
    struct timespec t;
    CHECK_EQ(clock_gettime(clock, &t), 0);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* A few spins, and falling asleep; not a share of the time. */
TEST(dispatcher_without_posts_uses_no_cpu)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    clockid_t clock = ask(group, asks_clock, 0).clock;
    int64_t used = INT64_MAX;
    for (int attempt = 0; attempt < 50 && used > 5 * MS; attempt++) {
        for (int i = 0; i < 500; i++) {
            ask(group, NULL, 0);
        }
        ask(group, sets_score, WEFT__SPIN_MAX_SCORE); /* as after many hits */
        int64_t before = cpu_of(clock);
        usleep(100000); /* does not wait for an event: nothing may happen during it */
        used = cpu_of(clock) - before;
    }
    CHECK(used <= 5 * MS);
    stop_dispatcher(d);
}

/* --- what a spin must not delay --------------------------------------------------------------- */

static void spin_for_long(weft_group *group)
{
    ask(group, sets_score, WEFT__SPIN_MAX_SCORE);
}

struct nap {
    weft_event over;
    int64_t late_ns;
};

static void *naps_once(void *arg)
{
    struct nap *nap = arg;
    int64_t due = weft_after(5 * MS);
    CHECK_EQ(weft_sleep(due), 0);
    nap->late_ns = weft_now() - due;
    weft_event_set(&nap->over);
    return NULL;
}

TEST(timer_ends_dispatcher_spin)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.spin_ns = 300 * SECOND});
    weft_group *group = make_group(d, "g");
    struct nap nap = {0};
    weft_event_init(&nap.over, NULL);
    CHECK_EQ(weft_group_spawn(group, NULL, naps_once, &nap, NULL), 0);
    spin_for_long(group);
    CHECK_EQ(weft_event_wait(&nap.over, WEFT_FOREVER), 0);
    CHECK(nap.late_ns < 150 * SECOND);
    weft_event_deinit(&nap.over);
    stop_dispatcher(d);
}

static void *reads_one(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER), 1);
    return NULL;
}

TEST(io_ends_dispatcher_spin)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.spin_ns = 300 * SECOND});
    weft_group *group = make_group(d, "g");
    weft_fiber reader;
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(weft_group_spawn(group, &reader, reads_one, &ends[0], NULL), 0);
    spin_for_long(group);
    int64_t began = weft_now();
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(weft_join(reader, NULL, WEFT_FOREVER), 0);
    CHECK(weft_now() - began < 150 * SECOND);
    close(ends[0]);
    close(ends[1]);
    stop_dispatcher(d);
}

TEST(stop_ends_dispatcher_spin)
{
    for (int i = 0; i < 10; i++) {
        weft_dispatcher *d =
            start_dispatcher(&(struct weft_dispatcher_opts){.spin_ns = 300 * SECOND});
        weft_group *group = make_group(d, "g");
        spin_for_long(group);
        int64_t began = weft_now();
        stop_dispatcher(d);
        CHECK(weft_now() - began < 150 * SECOND);
    }
}

static void *answers(void *arg)
{
    weft_event_set(arg);
    return NULL;
}

TEST(spinning_dispatcher_sees_spawn_from_outside)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.spin_ns = 300 * SECOND});
    weft_group *group = make_group(d, "g");
    weft_event woken;
    weft_event_init(&woken, NULL);
    for (int i = 0; i < 100; i++) {
        spin_for_long(group);
        CHECK_EQ(weft_group_spawn(group, NULL, answers, &woken, NULL), 0);
        CHECK_EQ(weft_event_wait(&woken, weft_after(150 * SECOND)), 0);
        weft_event_reset(&woken);
    }
    weft_event_deinit(&woken);
    stop_dispatcher(d);
}

TEST(dispatcher_with_spinning_off_sleeps)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.spin_ns = -1});
    weft_group *group = make_group(d, "g");
    ask(group, sets_score, WEFT__SPIN_MAX_SCORE);
    CHECK_EQ(ask(group, asks_score, 0).value, WEFT__SPIN_MAX_SCORE); /* neither hit nor miss */
    stop_dispatcher(d);
}
