/* Actors call, send, set timers and end at random, while threads kill them: every call completes
 * exactly once, every actor that is asked to end does end, and nothing is left. Mailboxes are small
 * and use every overflow policy. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

enum { PEERS = 64, TAGS = 8, KILLERS = 2 };
#define MS ((int64_t)1000000)

static _Atomic(uint64_t) ids[PEERS];
static _Atomic(uint32_t) host_number;
static weft_host *host;
static atomic_uint_fast64_t asked, completed, answered, messages;

struct node {
    uint64_t rand;
    uint64_t timer;   /* the last timer it has set */
    uint64_t pending; /* tags of its commands, one bit each */
    uint64_t debt;    /* a call to which it replies later */
    bool ending;
};

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static weft_pid peer(uint64_t *rand)
{
    return (weft_pid){.host = host_number, .id = atomic_load(&ids[next(rand) % PEERS])};
}

/* Returns a free tag, or TAGS if there is none. */
static uint64_t take_tag(struct node *n)
{
    uint64_t tag = 0;
    while (tag < TAGS && (n->pending >> tag & 1)) {
        tag++;
    }
    if (tag < TAGS) {
        n->pending |= (uint64_t)1 << tag;
        atomic_fetch_add(&asked, 1);
    }
    return tag;
}

static void act(weft_actor *self, struct node *n, weft_out *out)
{
    weft_pid to = peer(&n->rand);
    uint64_t tag;
    switch (next(&n->rand) % 8) {
    case 0:
    case 1:
        tag = take_tag(n);
        if (tag < TAGS) {
            int64_t deadline = weft_after(next(&n->rand) % (2 * MS));
            CHECK_EQ(weft_out_call(out, tag, to, "call", weft_buf_copy("x", 1), deadline), 0);
        }
        break;
    case 2:
        tag = take_tag(n);
        if (tag < TAGS) {
            CHECK_EQ(weft_out_at(out, tag, weft_after(next(&n->rand) % MS)), 0);
        }
        break;
    case 3:
        tag = take_tag(n);
        if (tag < TAGS) {
            /* Two actors that wait for capacity in each other's mailbox, and take no messages
             * meanwhile, would wait for ever. */
            CHECK_EQ(weft_out_send(out, tag, to, "send", 0, weft_buf_copy("x", 1),
                                   weft_after(next(&n->rand) % MS)),
                     0);
        }
        break;
    case 4:
        weft_actor_send_at(to, &n->timer, "after", 0, weft_buf_copy("x", 1),
                           weft_after(next(&n->rand) % MS));
        break;
    case 5:
        weft_actor_send_cancel(n->timer);
        break;
    default:
        weft_actor_send(to, "plain", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY);
        weft_actor_send(weft_actor_pid(self), "plain", 0, NULL, WEFT_BY_POLICY);
    }
}

static void take_call(struct node *n, const struct weft_actor_event *event)
{
    if (n->debt) {
        weft_actor_reply(n->debt, 0, NULL); /* maybe too late */
        n->debt = 0;
    }
    switch (next(&n->rand) % 4) {
    case 0:
        n->debt = event->tag;
        break;
    case 1: /* no reply */
        break;
    default:
        weft_actor_reply(event->tag, 0, weft_actor_take_buf(event));
    }
    atomic_fetch_add(&answered, 1);
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t count,
                weft_out *out)
{
    struct node *n = weft_actor_state(self);
    n->rand = n->rand ? n->rand : weft_actor_pid(self).id;
    for (size_t i = 0; i < count; i++) {
        switch (events[i].kind) {
        case WEFT_EVENT_COMPLETE:
            CHECK(n->pending >> events[i].tag & 1); /* once, and for a command of its own */
            n->pending &= ~((uint64_t)1 << events[i].tag);
            atomic_fetch_add(&completed, 1);
            break;
        case WEFT_EVENT_CALL:
            take_call(n, &events[i]);
            break;
        case WEFT_EVENT_MESSAGE:
            atomic_fetch_add(&messages, 1);
            break;
        default:
            n->ending = true;
        }
        if (!n->ending) {
            act(self, n, out);
        }
    }
    if (n->ending && !n->pending) {
        weft_out_done(out, NULL);
    } else if (n->pending && next(&n->rand) % 2) {
        weft_out_wait(out);
    } else {
        weft_out_idle(out);
    }
    return 0;
}

static const struct weft_actor_kind kinds[] = {
    {.name = "refuses", .state_bytes = sizeof(struct node), .step = step, .mailbox = 16},
    {.name = "drops",
     .state_bytes = sizeof(struct node),
     .step = step,
     .mailbox = 8,
     .policy = WEFT_MAILBOX_DROP_OLDEST},
    {.name = "waits",
     .state_bytes = sizeof(struct node),
     .step = step,
     .mailbox = 4,
     .batch = 3,
     .policy = WEFT_MAILBOX_WAIT},
};

static void put(unsigned slot, unsigned kind)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kinds[kind % 3], NULL, NULL), 0);
    host_number = pid.host;
    atomic_store(&ids[slot], pid.id);
    weft_actor_send(pid, "begin", 0, NULL, WEFT_BY_POLICY);
}

/* Kills and replaces actors, calls and sends from outside. */
static void *disturb(void *arg)
{
    uint64_t rand = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < check_scale(4000); i++) {
        unsigned slot = next(&rand) % PEERS;
        weft_pid pid = {.host = host_number, .id = atomic_load(&ids[slot])};
        weft_buf *reply = NULL;
        int err;
        switch (next(&rand) % 4) {
        case 0:
            err = next(&rand) % 2 ? weft_actor_kill(pid) : weft_actor_cancel(pid, NULL);
            CHECK(err == 0 || err == -ESRCH);
            put(slot, next(&rand));
            break;
        case 1:
            err = weft_actor_call(pid, &reply, "call", weft_buf_copy("x", 1),
                                  weft_after(next(&rand) % (MS / 4)));
            CHECK(err == 0 || err == -ETIMEDOUT || err == -ESRCH || err == -EOWNERDEAD ||
                  err == -ENOBUFS);
            weft_buf_free(reply);
            break;
        case 2:
            err = weft_actor_send(pid, "until", 0, NULL, weft_after(next(&rand) % (MS / 4)));
            CHECK(err == 0 || err == -ETIMEDOUT || err == -ESRCH);
            break;
        default:
            err = weft_actor_send(pid, "outside", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY);
            CHECK(err == 0 || err == -ENOBUFS || err == -ESRCH);
        }
    }
    return NULL;
}

TEST(actor_calls_complete_once_under_random_kills)
{
    pthread_t threads[KILLERS];
    struct weft_host_stats stats;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    for (unsigned i = 0; i < PEERS; i++) {
        put(i, i);
    }
    for (uintptr_t i = 0; i < KILLERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, disturb, (void *)(check_seed() + i + 1)), 0);
    }
    for (int i = 0; i < KILLERS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, 0);
    CHECK(atomic_load(&completed) <= atomic_load(&asked));
    printf("%llu commands, %llu complete, %llu calls seen, %llu messages, %llu dead letters\n",
           (unsigned long long)atomic_load(&asked), (unsigned long long)atomic_load(&completed),
           (unsigned long long)atomic_load(&answered), (unsigned long long)atomic_load(&messages),
           (unsigned long long)stats.dead_letters);
    weft_host_destroy(host);
}
