/* Very many actors at once: 10,000 in a normal run, 1,000,000 in `make soak`. Threads send to them,
 * kill them and start others in their place, link them, and upgrade them to new code.
 *
 * Invariants: messages from one thread to one actor arrive in order; every accepted message was
 * received or is a dead letter; each actor was closed once; no actor is left.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"

enum { THREADS = 3, MOST = 1000000 };

static weft_host *host;
static weft_pid *people;
static size_t population;
static long rounds;
static atomic_long sent, seen, dead, spawned, closed, upgraded;

struct state {
    uint64_t last[THREADS]; /* from each thread */
};

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out);

static void on_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add_explicit(&closed, 1, memory_order_relaxed);
}

static const struct weft_actor_kind kinds[2] = {
    {.name = "old", .state_bytes = sizeof(struct state), .step = step, .close = on_close},
    {.name = "new", .state_bytes = sizeof(struct state), .step = step, .close = on_close},
};

static void link_to(weft_actor *self, const weft_buf *buf)
{
    weft_pid other;
    memcpy(&other, buf->data, sizeof other);
    int err = weft_actor_link(self, other);
    CHECK(err == 0 || err == -ESRCH || err == -EINVAL);
}

static void take(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    struct state *s = weft_actor_state(self);
    uint64_t *last = &s->last[event->tag >> 56];
    CHECK(event->tag > *last);
    *last = event->tag;
    atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
    if (strcmp(event->topic, "link") == 0) {
        link_to(self, event->buf);
    } else if (strcmp(event->topic, "upgrade") == 0) {
        CHECK_EQ(weft_out_upgrade(out, &kinds[1], NULL), 0);
    }
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    bool over = false;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE && over) {
            atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
        } else if (events[i].kind == WEFT_EVENT_MESSAGE) {
            take(self, &events[i], out);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            over = true;
            weft_out_done(out, NULL);
        } else {
            CHECK_EQ(events[i].kind, WEFT_EVENT_UPGRADE);
            CHECK_EQ(events[i].error, 0);
            atomic_fetch_add_explicit(&upgraded, 1, memory_order_relaxed);
        }
    }
    return 0;
}

static void on_dead(weft_host *where, const struct weft_dead_letter *letter, void *arg)
{
    (void)where, (void)letter, (void)arg;
    atomic_fetch_add_explicit(&dead, 1, memory_order_relaxed);
}

static weft_pid start(void)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kinds[0], NULL, NULL), 0);
    atomic_fetch_add_explicit(&spawned, 1, memory_order_relaxed);
    return pid;
}

/* Each thread owns a part of the actors, and sends to all. */
struct part {
    unsigned number;
    size_t from, to;
    struct weft__rand rand;
};

static void send_one(struct part *part, weft_pid to, uint64_t tag, unsigned what)
{
    weft_buf *buf = NULL;
    const char *topic = what < 4 ? "link" : what < 8 ? "upgrade" : "news";
    if (what < 4) {
        size_t i = part->from + weft__rand_next(&part->rand) % (part->to - part->from);
        buf = weft_buf_copy(&people[i], sizeof people[i]);
    }
    int err = weft_actor_send(to, topic, tag, buf, WEFT_BY_POLICY);
    CHECK(err == 0 || err == -ESRCH || err == -ENOBUFS);
    atomic_fetch_add_explicit(&sent, err != -ENOBUFS, memory_order_relaxed); /* or dead at once */
}

static void *live(void *arg)
{
    struct part *part = arg;
    for (size_t i = part->from; i < part->to; i++) {
        people[i] = start();
    }
    for (long i = 1; i <= rounds; i++) {
        size_t who = part->from + weft__rand_next(&part->rand) % (part->to - part->from);
        unsigned what = weft__rand_next(&part->rand) % 100;
        if (what < 90) {
            send_one(part, people[who], (uint64_t)part->number << 56 | (uint64_t)i, what);
        } else {
            int err = weft_actor_kill(people[who]);
            CHECK(err == 0 || err == -ESRCH);
            people[who] = start();
        }
    }
    return NULL;
}

TEST(many_actors_start_and_exit_without_message_loss)
{
    struct part parts[THREADS];
    pthread_t threads[THREADS];
    struct weft_host_stats stats;
    uint64_t seed = check_seed();
    long percent = check_scale(100);
    population = percent >= 1000 ? MOST : 100 * (size_t)percent;
    rounds = check_scale(30000);
    people = calloc(population, sizeof *people);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_host_on_dead_letter(host, on_dead, NULL), 0);
    for (unsigned t = 0; t < THREADS; t++) {
        parts[t] = (struct part){
            .number = t, .from = population * t / THREADS, .to = population * (t + 1) / THREADS};
        weft__rand_seed(&parts[t].rand, seed + t);
        CHECK_EQ(pthread_create(&threads[t], NULL, live, &parts[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    CHECK(weft_host_stop(host, "enough", WEFT_FOREVER) >= 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, 0);
    CHECK_EQ(stats.spawned, atomic_load(&spawned));
    CHECK_EQ(stats.ended, atomic_load(&spawned));
    CHECK_EQ(atomic_load(&closed), atomic_load(&spawned));
    printf("%zu at once, %ld in all, %ld upgrades, %ld messages seen, %ld dead\n", population,
           atomic_load(&spawned), atomic_load(&upgraded), atomic_load(&seen), atomic_load(&dead));
    CHECK_EQ(atomic_load(&seen) + atomic_load(&dead), atomic_load(&sent));
    weft_host_destroy(host);
    free(people);
}
