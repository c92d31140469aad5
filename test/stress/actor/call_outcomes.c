/* Threads, fibers and actor steps call servers that reply at once, later or never, transfer calls
 * to each other, fail, are upgraded and are killed. Checks that calls made = replies + server ends
 * + timeouts + refusals, and that a call with a long deadline never runs into that deadline. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

enum { SERVERS = 16, THREADS = 2, FIBERS = 8, STEPS = 32, KEPT = 4 };
#define MS ((int64_t)1000000)

static weft_host *host;
static _Atomic(uint64_t) ids[SERVERS];
static _Atomic(uint32_t) host_number;
static atomic_uint_fast64_t made, answered, ended, timed_out, refused;
static atomic_int callers; /* callers that have not finished */

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static weft_pid pick(uint64_t *rand)
{
    return (weft_pid){.host = atomic_load(&host_number),
                      .id = atomic_load(&ids[next(rand) % SERVERS])};
}

/* --- servers ---------------------------------------------------------------------------------- */

struct server {
    uint64_t rand;
    uint64_t kept[KEPT];
};

static void keep(struct server *s, uint64_t call)
{
    uint64_t *place = &s->kept[next(&s->rand) % KEPT];
    if (*place) {
        weft_actor_reply(*place, 0, NULL); /* its caller may be gone */
    }
    *place = call;
}

static void hand_on(struct server *s, uint64_t call)
{
    weft_pid to = pick(&s->rand);
    if (weft_actor_call_transfer(call, to) == 0) {
        weft_actor_send(to, "take", call, NULL, WEFT_BY_POLICY); /* else it ends with that server */
    } else {
        keep(s, call);
    }
}

static int convert(weft_actor *self, void *old_state, void *new_state)
{
    struct server *from = old_state, *to = new_state;
    to->rand = from->rand;
    for (int i = 0; i < KEPT; i++) {
        if (from->kept[i] && next(&to->rand) % 2) {
            int err = weft_actor_call_transfer(from->kept[i], weft_actor_pid(self));
            CHECK(err == 0 || err == -ESRCH);
            to->kept[i] = from->kept[i];
        }
    }
    return 0;
}

static int serve(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out);

static const struct weft_actor_kind kinds[] = {
    {.name = "one", .state_bytes = sizeof(struct server), .step = serve, .mailbox = 8},
    {.name = "other",
     .state_bytes = sizeof(struct server),
     .step = serve,
     .mailbox = 4,
     .policy = WEFT_MAILBOX_DROP_OLDEST},
};

static int serve(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct server *s = weft_actor_state(self);
    s->rand = s->rand ? s->rand : weft_actor_pid(self).id;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            keep(s, events[i].tag);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL); /* the rest of the batch gets no reply */
            return 0;
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            switch (next(&s->rand) % 48) {
            case 0:
            case 1:
            case 2:
                keep(s, events[i].tag);
                break;
            case 3:
            case 4:
                hand_on(s, events[i].tag);
                break;
            case 5:
                break; /* no reply */
            case 6:
                return -EIO;
            case 7:
                CHECK_EQ(weft_out_upgrade(out, &kinds[next(&s->rand) % 2], convert), 0);
                break;
            default:
                weft_actor_reply(events[i].tag, 0, NULL);
            }
        }
    }
    return 0;
}

static void put(unsigned at)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kinds[at % 2], NULL, NULL), 0);
    atomic_store(&host_number, pid.host);
    atomic_store(&ids[at], pid.id);
}

/* Replaces servers while there are callers: a call without a reply ends with its server. */
static void *replace(void *arg)
{
    uint64_t rand = (uint64_t)(uintptr_t)arg;
    while (atomic_load(&callers) > 0) {
        unsigned at = next(&rand) % SERVERS;
        weft_pid pid = {.host = atomic_load(&host_number), .id = atomic_load(&ids[at])};
        if (next(&rand) % 2) {
            weft_actor_kill(pid);
        } else {
            weft_actor_cancel(pid, NULL);
        }
        weft_actor_join(pid, NULL, WEFT_FOREVER);
        put(at);
    }
    return NULL;
}

/* --- callers ---------------------------------------------------------------------------------- */

static void count(int err, bool patient)
{
    switch (err) {
    case 0:
        atomic_fetch_add(&answered, 1);
        break;
    case -EOWNERDEAD:
    case -ESRCH:
        atomic_fetch_add(&ended, 1);
        break;
    case -ETIMEDOUT:
        CHECK(!patient);
        atomic_fetch_add(&timed_out, 1);
        break;
    default:
        CHECK_EQ(err, -ENOBUFS);
        atomic_fetch_add(&refused, 1);
    }
}

static int64_t draw_deadline(uint64_t *rand, bool *patient)
{
    *patient = next(rand) % 4 != 0;
    return weft_after(*patient ? 600000 * MS : next(rand) % (MS / 2));
}

static void *call_often(void *arg)
{
    uint64_t rand = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < check_scale(5000); i++) {
        bool patient;
        int64_t deadline = draw_deadline(&rand, &patient);
        atomic_fetch_add(&made, 1);
        count(weft_actor_call(pick(&rand), NULL, "call", NULL, deadline), patient);
    }
    atomic_fetch_sub(&callers, 1);
    return NULL;
}

struct caller {
    uint64_t rand;
    int left, out;
};

/* The tag says whether the call has a long deadline. */
static int call_in_steps(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    struct caller *c = weft_actor_state(self);
    if (!c->rand) {
        c->rand = weft_actor_pid(self).id + check_seed();
        c->left = check_scale(1500);
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].kind, WEFT_EVENT_COMPLETE);
        count(events[i].error, events[i].tag);
        c->out--;
        CHECK(c->out >= 0);
    }
    while (c->left > 0 && c->out < 3) {
        bool patient;
        int64_t deadline = draw_deadline(&c->rand, &patient);
        atomic_fetch_add(&made, 1);
        CHECK_EQ(weft_out_call(out, patient, pick(&c->rand), "call", NULL, deadline), 0);
        c->left--;
        c->out++;
    }
    if (c->out == 0) {
        atomic_fetch_sub(&callers, 1);
        weft_out_done(out, NULL);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

static const struct weft_actor_kind step_caller = {
    .name = "caller", .state_bytes = sizeof(struct caller), .step = call_in_steps};

TEST(every_actor_call_ends_in_reply_exit_or_timeout)
{
    pthread_t threads[THREADS], replacer;
    weft_pool *pool;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    for (unsigned i = 0; i < SERVERS; i++) {
        put(i);
    }
    atomic_store(&callers, THREADS + FIBERS + STEPS);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (uintptr_t i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_submit(pool, call_often, (void *)(check_seed() + i + 100)), 0);
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, call_often, (void *)(check_seed() + i + 1)), 0);
    }
    for (int i = 0; i < STEPS; i++) {
        weft_pid pid;
        CHECK_EQ(weft_actor_spawn(host, &pid, &step_caller, NULL, NULL), 0);
    }
    CHECK_EQ(pthread_create(&replacer, NULL, replace, (void *)(check_seed() + 50)), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(pthread_join(replacer, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
    printf("%llu calls: %llu answered, %llu ended, %llu timed out, %llu refused\n",
           (unsigned long long)made, (unsigned long long)answered, (unsigned long long)ended,
           (unsigned long long)timed_out, (unsigned long long)refused);
    CHECK_EQ(answered + ended + timed_out + refused, made);
    CHECK(answered > 0 && ended > 0);
}
