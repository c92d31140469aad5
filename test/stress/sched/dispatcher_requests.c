/* Plain threads post requests to a dispatcher, wait for the reply, and pause: from no pause to
 * longer than a spin, so that either side is found awake, spinning, about to sleep and asleep. A
 * lost wake-up is a wait that never ends. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/clock.h"
#include "base/rand.h"
#include "check.h"
#include "idle/spin.h"

enum { THREADS = 3 };

struct question {
    struct weft_post post; /* first */
    weft_event answered;
    uint32_t think_ns; /* before the reply */
    long number;
};

static weft_group *group;
static long asked;
static _Atomic(long) answers;

static void think(uint32_t ns)
{
    int64_t end = weft__clock_ns() + ns;
    while (weft__clock_ns() < end) {
    }
}

static void answers_question(struct weft_post *post)
{
    struct question *question = (struct question *)(void *)post;
    think(question->think_ns);
    question->number = -question->number;
    atomic_fetch_add_explicit(&answers, 1, memory_order_relaxed);
    weft_event_set(&question->answered);
}

/* Mostly 0, sometimes about as long as a spin, seldom longer. */
static uint32_t some_time(struct weft__rand *rng)
{
    uint32_t dice = weft__rand_next(rng) % 16;
    uint32_t most = dice < 10 ? 1 : dice < 15 ? 2 * WEFT__SPIN_NS : 2 * WEFT__SPIN_SHORT_NS;
    return weft__rand_next(rng) % most;
}

/* A wait with a deadline may time out; the reply still arrives. */
static void await_answer(struct question *question, struct weft__rand *rng)
{
    if (weft__rand_next(rng) % 4 == 0) {
        int64_t deadline = weft_after(weft__rand_next(rng) % WEFT__SPIN_NS);
        int status = weft_event_wait(&question->answered, deadline);
        CHECK(status == 0 || (status == -ETIMEDOUT && weft_now() >= deadline));
    }
    CHECK_EQ(weft_event_wait(&question->answered, WEFT_FOREVER), 0);
}

static void *asks(void *arg)
{
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed() + (uintptr_t)arg);
    for (long i = 1; i <= asked; i++) {
        struct question question = {
            .post.fn = answers_question, .think_ns = some_time(&rng), .number = i};
        weft_event_init(&question.answered, NULL);
        CHECK_EQ(weft_group_submit(group, &question.post), 0);
        await_answer(&question, &rng);
        CHECK_EQ(question.number, -i);
        weft_event_deinit(&question.answered);
        think(some_time(&rng));
    }
    return NULL;
}

TEST(every_dispatcher_request_is_answered)
{
    weft_dispatcher *dispatcher;
    pthread_t threads[THREADS];
    asked = check_scale(20000);
    CHECK_EQ(weft_dispatcher_create(&dispatcher, NULL), 0);
    CHECK_EQ(weft_group_create(dispatcher, &group, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(dispatcher), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, asks, (void *)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(atomic_load(&answers), THREADS * asked);
    CHECK_EQ(weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(dispatcher);
}
