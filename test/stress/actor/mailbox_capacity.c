/* Actors send more messages than the mailboxes hold, by steps that wait for capacity, while senders
 * and receivers are killed and replaced. Each message is received or is a dead letter, messages of
 * one sender arrive in order, and none waits for ever. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"

enum { RECEIVERS = 3, SENDERS = 48, NUMBERS = 1 << 16, AT_ONCE = 8 };

static weft_host *host;
static _Atomic(uint64_t) receivers[RECEIVERS], senders[SENDERS];
static atomic_uint numbers;
static atomic_long issued, seen, dead;    /* messages without a deadline */
static atomic_long soon, soon_seen, told; /* messages with a deadline; completions */
static uint32_t host_number;

static weft_pid pid_of(uint64_t id)
{
    return (weft_pid){.host = host_number, .id = id};
}

static void on_dead(weft_host *where, const struct weft_dead_letter *letter, void *arg)
{
    (void)where, (void)arg;
    atomic_fetch_add(&dead, letter->topic[0] == 'n');
}

/* --- receivers -------------------------------------------------------------------------- */

static int receive(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    uint32_t *last = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind != WEFT_EVENT_MESSAGE) {
            weft_out_done(out, NULL);
            continue;
        }
        uint32_t *from = &last[events[i].tag >> 32];
        CHECK((uint32_t)events[i].tag > *from);
        *from = (uint32_t)events[i].tag;
        atomic_fetch_add(events[i].topic[0] == 'n' ? &seen : &soon_seen, 1);
    }
    return 0;
}

static const struct weft_actor_kind receiver_kinds[] = {
    {.name = "one",
     .step = receive,
     .state_bytes = NUMBERS * sizeof(uint32_t),
     .mailbox = 1,
     .policy = WEFT_MAILBOX_WAIT},
    {.name = "few",
     .step = receive,
     .state_bytes = NUMBERS * sizeof(uint32_t),
     .mailbox = 6,
     .policy = WEFT_MAILBOX_WAIT},
    {.name = "many",
     .step = receive,
     .state_bytes = NUMBERS * sizeof(uint32_t),
     .mailbox = 300,
     .policy = WEFT_MAILBOX_WAIT},
};

/* --- senders ------------------------------------------------------------------------------ */

struct sender {
    struct weft__rand rand;
    uint64_t number; /* the upper half of a tag */
    uint32_t sent, pending;
};

static uint64_t next_tag(struct sender *s)
{
    return s->number << 32 | ++s->sent;
}

static weft_pid some_receiver(struct sender *s)
{
    return pid_of(atomic_load(&receivers[weft__rand_next(&s->rand) % RECEIVERS]));
}

static void send_at_once(struct sender *s)
{
    weft_pid to = some_receiver(s);
    for (unsigned i = weft__rand_next(&s->rand) % 40; i > 0; i--) {
        int err = weft_actor_send(to, "n", next_tag(s), NULL, WEFT_BY_POLICY);
        atomic_fetch_add(&issued, err == 0 || err == -ESRCH);
        if (err) {
            CHECK(err == -ENOBUFS || err == -ESRCH);
            return;
        }
    }
}

static void send_patiently(struct sender *s, weft_out *out)
{
    uint64_t tag = next_tag(s);
    s->pending++;
    atomic_fetch_add(&issued, 1);
    CHECK_EQ(weft_out_send(out, 0, some_receiver(s), "n", tag, weft_buf_copy(&tag, sizeof tag),
                           WEFT_BY_POLICY),
             0);
}

static void send_soon(struct sender *s, weft_out *out)
{
    uint64_t tag = next_tag(s);
    s->pending++;
    atomic_fetch_add(&soon, 1);
    CHECK_EQ(weft_out_send(out, 1, some_receiver(s), "soon", tag, weft_buf_copy(&tag, sizeof tag),
                           weft_after(weft__rand_next(&s->rand) % 200000)),
             0);
}

static int send_all(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    struct sender *s = weft_actor_state(self);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            return 0;
        }
        CHECK_EQ(events[i].kind, WEFT_EVENT_COMPLETE);
        CHECK(events[i].error == 0 || events[i].error == -ESRCH ||
              (events[i].error == -ETIMEDOUT && events[i].tag == 1));
        s->pending--;
        atomic_fetch_add(&told, 1);
    }
    send_at_once(s);
    for (unsigned i = weft__rand_next(&s->rand) % 3; i > 0 && s->pending < AT_ONCE; i--) {
        if (weft__rand_next(&s->rand) % 4) {
            send_patiently(s, out);
        } else {
            send_soon(s, out);
        }
    }
    if (s->pending) {
        weft_out_wait(out);
    } else {
        weft_out_continue(out);
    }
    return 0;
}

static int begin_sender(weft_actor *self, const char *method, const weft_buf *input)
{
    struct sender *s = weft_actor_state(self);
    (void)method, (void)input;
    s->number = atomic_fetch_add(&numbers, 1);
    weft__rand_seed(&s->rand, s->number + 1);
    return s->number < NUMBERS ? 0 : -EAGAIN;
}

static const struct weft_actor_kind sender_kind = {
    .name = "sender", .state_bytes = sizeof(struct sender), .init = begin_sender, .step = send_all};

/* --- replacing actors ----------------------------------------------------------------------- */

static void replace(_Atomic(uint64_t) *place, const struct weft_actor_kind *kind)
{
    weft_pid pid;
    if (atomic_load(place)) {
        CHECK_EQ(weft_actor_kill(pid_of(atomic_load(place))), 0);
    }
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    if (!host_number) { /* before there are senders */
        host_number = pid.host;
    }
    atomic_store(place, pid.id);
}

/* Waits until messages have moved since the last call. */
static void await_traffic(void)
{
    long before = atomic_load(&seen);
    while (atomic_load(&seen) < before + 50) {
        sched_yield();
    }
}

TEST(senders_over_mailbox_capacity_lose_nothing_and_never_hang)
{
    struct weft__rand rand;
    long rounds = check_scale(1500);
    weft__rand_seed(&rand, check_seed());
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 3}), 0);
    CHECK_EQ(weft_host_on_dead_letter(host, on_dead, NULL), 0);
    for (int i = 0; i < RECEIVERS; i++) {
        replace(&receivers[i], &receiver_kinds[i]);
    }
    for (int i = 0; i < SENDERS; i++) {
        replace(&senders[i], &sender_kind);
    }
    for (long i = 0; i < rounds; i++) {
        unsigned n = weft__rand_next(&rand);
        if (n % 8 == 0) {
            replace(&receivers[n / 8 % RECEIVERS], &receiver_kinds[n / 64 % RECEIVERS]);
        } else {
            replace(&senders[n / 8 % SENDERS], &sender_kind);
        }
        await_traffic();
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&seen) + atomic_load(&dead), atomic_load(&issued));
    CHECK(atomic_load(&soon_seen) <= atomic_load(&soon));
    CHECK(atomic_load(&told) > 0);
    weft_host_destroy(host);
}
