/* A member of a population (stress/actor/population.h): its random actions, and its checks of the
 * events it gets. */
#ifndef WEFT_TEST_STRESS_ACTOR_RANDOM_ACTOR_H
#define WEFT_TEST_STRESS_ACTOR_RANDOM_ACTOR_H

#include <errno.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"

struct society_opts {
    long population; /* actors */
    long shown;      /* the largest number of them that all others can address */
    long keepers;
    long children;  /* of dynamic supervisors; in addition to those of the tree */
    long rounds;    /* of each outside thread; 0: until `seconds` are over */
    double seconds; /* with a status line every few seconds */
};

enum { THREADS = 3, RELATIONS = 4, PEERS = 4, CROWDS = 4, TREE = 15 /* children in it */ };

static struct {
    const struct society_opts *opts;
    weft_host *host, *safe;
    uint32_t number;          /* of the host */
    _Atomic(uint64_t) *shown; /* as many as opts say */
    atomic_int *kept;         /* notifications a monitoring actor still expects */
    weft_pid *keepers;
    weft_pid crowds[CROWDS]; /* dynamic supervisors */
    atomic_bool unruly;      /* starts of children may fail */
    atomic_bool calm;        /* actors do nothing on their own, yet or any more */
    atomic_long begun, closed;
    atomic_long sent, refused, seen, dead;
    atomic_long told, upgrades, calls;
    atomic_long children, starts, ends; /* expected children; their starts and ends */
} society;

struct peer {
    uint64_t id, last;
};

struct state {
    struct weft__rand rand;
    uint64_t count;           /* the tag of its next message */
    uint64_t call;            /* the tag of its own pending call, or 0 */
    uint64_t owed;            /* a call to which it replies later, or 0 */
    char *owned;              /* freed once; NULL: the state has moved */
    _Atomic(uint64_t) *place; /* where its id is published, or NULL */
    weft_pid friend;
    struct peer peers[PEERS];
    uint64_t threads[THREADS + 1];
    uint64_t refs[RELATIONS];
    unsigned turn;
    bool child, begun;
};

static const struct weft_actor_kind society_kinds[2];

static unsigned roll(struct weft__rand *rand, unsigned n)
{
    return weft__rand_next(rand) % n;
}

static _Atomic(uint64_t) *some_place(struct weft__rand *rand)
{
    return &society.shown[roll(rand, (unsigned)society.opts->shown)];
}

/* Returns a random actor, which may just have ended; rarely none. */
static weft_pid pick(struct weft__rand *rand)
{
    uint64_t id = 0;
    for (int i = 0; i < 4 && !id; i++) {
        id = atomic_load(some_place(rand));
    }
    return (weft_pid){.host = society.number, .id = id};
}

/* Publishes the actor's id if a place is free; otherwise only its parent knows the actor. */
static void show(struct state *s, uint64_t id)
{
    for (int i = 0; i < 4 && !s->place; i++) {
        _Atomic(uint64_t) *place = some_place(&s->rand);
        uint64_t none = 0;
        s->place = atomic_compare_exchange_strong(place, &none, id) ? place : NULL;
    }
}

/* More messages are pending than the memory of a very large population allows. */
static bool flooded(void)
{
    long waiting = atomic_load(&society.sent) - atomic_load(&society.seen);
    return waiting - atomic_load(&society.dead) > society.opts->population / 2 + 10000;
}

/* The population may grow. */
static bool sparse(void)
{
    return atomic_load(&society.begun) - atomic_load(&society.closed) < society.opts->population;
}

/* Returns whether the receiver existed. */
static bool sends(weft_pid to, uint64_t tag)
{
    int err = weft_actor_send(to, "n", tag, weft_buf_copy(&tag, sizeof tag), WEFT_BY_POLICY);
    CHECK(err == 0 || err == -ESRCH || err == -ENOBUFS);
    atomic_fetch_add(&society.sent, err == 0);
    atomic_fetch_add(&society.refused, err == -ESRCH);
    return err != -ESRCH;
}

static void on_dead(weft_host *where, const struct weft_dead_letter *letter, void *arg)
{
    (void)where, (void)arg;
    atomic_fetch_add(&society.dead, strcmp(letter->topic, "n") == 0);
}

/* --- events ----------------------------------------------------------------------------------- */

static void in_order(struct state *s, const struct weft_actor_event *e)
{
    uint64_t *last = NULL;
    CHECK(memcmp(e->buf->data, &e->tag, sizeof e->tag) == 0);
    if (weft_pid_is_none(e->from)) {
        last = &s->threads[e->tag >> 56];
    }
    for (int i = 0; i < PEERS && !last; i++) {
        last = s->peers[i].id == e->from.id ? &s->peers[i].last : NULL;
    }
    if (!last) { /* forgets one sender */
        struct peer *peer = &s->peers[s->turn++ % PEERS];
        *peer = (struct peer){.id = e->from.id};
        last = &peer->last;
    }
    CHECK(e->tag > *last);
    *last = e->tag;
}

static void down(struct state *s, uint64_t ref)
{
    int i = 0;
    while (i < RELATIONS && s->refs[i] != ref) {
        i++;
    }
    CHECK(i < RELATIONS); /* otherwise it was notified before, or removed */
    s->refs[i] = 0;
    atomic_fetch_add(&society.told, 1);
}

/* Replies now, later, through another actor, or not at all. */
static void called(struct state *s, uint64_t call)
{
    if (s->owed) {
        weft_actor_reply(s->owed, 0, NULL); /* it may be too late */
        s->owed = 0;
    }
    switch (roll(&s->rand, 8)) {
    case 0:
        s->owed = call;
        break;
    case 1:
        weft_actor_send(pick(&s->rand), "answer", call, NULL, WEFT_BY_POLICY);
        break;
    case 2:
        break;
    default:
        weft_actor_reply(call, 0, weft_buf_copy("yes", 4));
        break;
    }
}

/* Returns whether the actor is to do something. */
static bool hear(struct state *s, const struct weft_actor_event *e)
{
    switch (e->kind) {
    case WEFT_EVENT_MESSAGE:
        if (strcmp(e->topic, "n") != 0) {
            weft_actor_reply(e->tag, 0, NULL); /* if it is "answer"; published ones have no call */
            return false;
        }
        atomic_fetch_add(&society.seen, 1);
        in_order(s, e);
        return true;
    case WEFT_EVENT_CALL:
        called(s, e->tag);
        return true;
    case WEFT_EVENT_COMPLETE:
        CHECK_EQ(e->tag, s->call); /* otherwise it was already complete */
        s->call = 0;
        atomic_fetch_add(&society.calls, 1);
        return true;
    case WEFT_EVENT_DOWN:
        down(s, e->tag);
        return false;
    default:
        CHECK(e->kind == WEFT_EVENT_UPGRADE);
        return false;
    }
}

/* --- actions ---------------------------------------------------------------------------------- */

static void spawns(weft_actor *self, struct state *s)
{
    if (!sparse()) {
        return;
    }
    uint64_t ref, tag = s->count++, seed = weft__rand_next(&s->rand);
    weft_buf *input = weft_buf_copy(&seed, sizeof seed);
    char name[8];
    snprintf(name, sizeof name, "n%u", roll(&s->rand, 10));
    int free = 0;
    while (free < RELATIONS && s->refs[free]) {
        free++;
    }
    struct weft_actor_spawn_opts opts = {
        .input = input,
        .self = self,
        .link = roll(&s->rand, 2),
        .name = roll(&s->rand, 4) ? NULL : name,
        .monitor = free < RELATIONS ? &ref : NULL,
        .topic = "n",
        .tag = tag,
        .message = weft_buf_copy(&tag, sizeof tag),
    };
    weft_pid pid;
    int err = weft_actor_spawn_with(society.host, &pid, &society_kinds[0], &opts);
    CHECK(err == 0 || err == 1 || err == -ESHUTDOWN || err == -ENOBUFS);
    atomic_fetch_add(&society.sent, err >= 0);
    if (err == 0 && free < RELATIONS) {
        s->refs[free] = ref;
    }
    weft_buf_free(input);
}

/* Returns how many more actors are monitored. */
static int watches(weft_actor *self, struct state *s)
{
    int i = (int)roll(&s->rand, RELATIONS);
    if (s->refs[i]) {
        CHECK_EQ(weft_actor_demonitor(self, s->refs[i]), 0); /* it has not fired, and so will not */
        s->refs[i] = 0;
        return -1;
    }
    weft_pid other = pick(&s->rand);
    int err = weft_actor_monitor(self, &s->refs[i], other);
    CHECK(err == 0 || (err == -EINVAL && weft_pid_equal(other, weft_actor_pid(self))));
    return err == 0;
}

static int convert(weft_actor *self, void *old_state, void *new_state)
{
    struct state *from = old_state;
    (void)self;
    if (roll(&from->rand, 4) == 0) {
        return -EAGAIN;
    }
    memcpy(new_state, from, sizeof *from);
    from->owned = NULL;
    atomic_fetch_add(&society.begun, 1);
    atomic_fetch_add(&society.upgrades, 1);
    return 0;
}

/* Sends to one receiver for a while, so that there is an order to check. */
static void talks(struct state *s, weft_out *out)
{
    if (flooded()) {
        return;
    }
    for (unsigned n = roll(&s->rand, 3); n < 3; n++) {
        if (!sends(s->friend, s->count++) || roll(&s->rand, 16) == 0) {
            s->friend = pick(&s->rand);
        }
    }
    sends(pick(&s->rand), s->count++);
    weft_out_continue(out);
}

static void asks(struct state *s, weft_out *out)
{
    if (s->call) {
        return;
    }
    s->call = s->count++;
    CHECK_EQ(weft_out_call(out, s->call, pick(&s->rand), "call", NULL, weft_after(5000000)), 0);
    if (roll(&s->rand, 2)) {
        weft_out_wait(out);
    }
}

/* Publishes in groups that stay small, however large the population is. */
static void publishes(weft_actor *self, struct state *s)
{
    char group[16];
    snprintf(group, sizeof group, "g%u",
             roll(&s->rand, (unsigned)society.opts->population / 8 + 1));
    weft_actor_group_join(society.host, group, weft_actor_pid(self));
    weft_actor_group_publish(society.host, group, "pub", 0, NULL, WEFT_BY_POLICY);
}

static int act(weft_actor *self, struct state *s, weft_out *out)
{
    char name[8];
    snprintf(name, sizeof name, "n%u", roll(&s->rand, 10));
    switch (roll(&s->rand, 60)) {
    case 0:
        weft_out_done(out, weft_buf_copy("done", 5));
        break;
    case 1:
        return -EIO;
    case 2:
        weft_out_exit(out, -EPIPE, weft_buf_copy("pipe", 5));
        break;
    case 3:
        weft_actor_kill(pick(&s->rand));
        break;
    case 4:
        weft_actor_exit(pick(&s->rand), -(int)roll(&s->rand, 3), weft_buf_copy("bye", 4));
        break;
    case 5:
        weft_actor_link(self, pick(&s->rand));
        break;
    case 6:
        weft_actor_unlink(self, pick(&s->rand));
        break;
    case 7:
        weft_actor_register(society.host, name, weft_actor_pid(self));
        break;
    case 8:
        publishes(self, s);
        break;
    case 9:
    case 10:
    case 11:
        watches(self, s);
        break;
    case 12:
    case 13:
    case 14:
        CHECK_EQ(weft_out_upgrade(out, &society_kinds[roll(&s->rand, 2)], convert), 0);
        break;
    case 15:
    case 16:
    case 17:
        asks(s, out);
        break;
    case 18:
    case 19:
    case 20:
    case 21:
    case 22:
    case 23:
    case 24:
    case 25:
        spawns(self, s);
        break;
    default:
        talks(s, out);
        break;
    }
    return 0;
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct state *s = weft_actor_state(self);
    bool woken = n == 0;
    if (!s->begun) {
        s->begun = true;
        show(s, weft_actor_pid(self).id);
    }
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) { /* it has not seen the remaining events */
            weft_out_done(out, NULL);
            for (; i < n; i++) {
                atomic_fetch_add(&society.seen, events[i].kind == WEFT_EVENT_MESSAGE &&
                                                    strcmp(events[i].topic, "n") == 0);
            }
            return 0;
        }
        woken |= hear(s, &events[i]);
    }
    weft_out_idle(out);
    return woken && !atomic_load(&society.calm) ? act(self, s, out) : 0;
}

static int begin(weft_actor *self, const char *method, const weft_buf *input)
{
    struct state *s = weft_actor_state(self);
    uint64_t seed;
    (void)method;
    memcpy(&seed, input->data, sizeof seed);
    weft__rand_seed(&s->rand, seed ^ weft_actor_pid(self).id);
    s->owned = strdup("owned");
    s->count = 1;
    s->friend = pick(&s->rand);
    atomic_fetch_add(&society.begun, 1);
    return 0;
}

static int begin_child(weft_actor *self, const char *method, const weft_buf *input)
{
    struct state *s = weft_actor_state(self);
    struct weft__rand rand;
    weft__rand_seed(&rand, weft_actor_pid(self).id);
    if (atomic_load(&society.unruly) && roll(&rand, 16) == 0) {
        return -EAGAIN;
    }
    atomic_fetch_add(&society.starts, 1);
    begin(self, method, input);
    s->child = true;
    return 0;
}

static void close_it(weft_actor *self)
{
    struct state *s = weft_actor_state(self);
    if (s->owned) {
        if (s->owed) {
            weft_actor_reply(s->owed, -EPIPE, NULL);
        }
        if (s->place) {
            atomic_store(s->place, 0);
        }
        atomic_fetch_add(&society.ends, s->child);
    }
    free(s->owned);
    atomic_fetch_add(&society.closed, 1);
}

static const struct weft_actor_kind society_kinds[2] = {{.name = "old",
                                                         .state_bytes = sizeof(struct state),
                                                         .init = begin,
                                                         .step = step,
                                                         .close = close_it},
                                                        {.name = "new",
                                                         .state_bytes = sizeof(struct state),
                                                         .step = step,
                                                         .close = close_it,
                                                         .mailbox = 30}};
static const struct weft_actor_kind child_kind = {.name = "child",
                                                  .state_bytes = sizeof(struct state),
                                                  .init = begin_child,
                                                  .step = step,
                                                  .close = close_it};

#endif
