/* A society of actors that spawn, send, call, kill, link, monitor, unlink, upgrade and end at random, some of them under
 * supervisors that start them again, while threads outside do the same to them. Keepers in another host watch and link some
 * of them; they trap, and nobody touches them. test/stress/actors.c runs a small one, test/soak/actors.c a large one.
 *
 * What must hold:
 *   - messages from one to one come in order;
 *   - every message that was accepted was seen or is a dead letter;
 *   - each monitor and each trapped link tells exactly once, unless it was taken back;
 *   - each call of an actor completes once;
 *   - when the turmoil is over, every child of a supervisor runs;
 *   - each state that began was closed once, nobody is left, and no buffer.
 */
#ifndef WEFT_TEST_STRESS_SOCIETY_H
#define WEFT_TEST_STRESS_SOCIETY_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

struct society_opts {
    long population; /* actors */
    long shown;      /* of which so many at most are known to all others */
    long keepers;
    long children;  /* of dynamic supervisors; those of the others come on top */
    long rounds;    /* of each thread outside; 0: until `seconds` are over */
    double seconds; /* with a line every few of them */
};

enum { THREADS = 3, TIES = 4, PEERS = 4, CROWDS = 4, TREE = 15 /* children in it */ };

static struct {
    const struct society_opts *opts;
    weft_host *host, *safe;
    uint32_t number;          /* of the host */
    _Atomic(uint64_t) *shown; /* so many as opts say */
    atomic_int *kept;         /* a keeper's ties that are to tell yet */
    weft_pid *keepers;
    weft_pid crowds[CROWDS]; /* dynamic supervisors */
    atomic_bool unruly;      /* starts of children may fail */
    atomic_bool calm;        /* they do nothing by themselves, yet or any more */
    atomic_long begun, closed;
    atomic_long sent, refused, seen, dead;
    atomic_long told, upgrades, calls;
    atomic_long children, starts, ends; /* that there are to be; of them */
} society;

struct peer {
    uint64_t id, last;
};

struct state {
    struct weft__rand rand;
    uint64_t count;           /* the tag of its next message */
    uint64_t call;            /* the tag of its own that is under way, or 0 */
    uint64_t owed;            /* a call that it will answer later, or 0 */
    char *owned;              /* is freed once; NULL: the state has moved */
    _Atomic(uint64_t) *place; /* where it is shown, or NULL */
    weft_pid friend;
    struct peer peers[PEERS];
    uint64_t threads[THREADS + 1];
    uint64_t refs[TIES];
    unsigned turn;
    bool child, begun;
};

struct keeper {
    struct state s;
    atomic_int *ties;
    weft_pid linked[TIES];
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

/* Somebody, who may just have ended; rarely nobody. */
static weft_pid pick(struct weft__rand *rand)
{
    uint64_t id = 0;
    for (int i = 0; i < 4 && !id; i++) {
        id = atomic_load(some_place(rand));
    }
    return (weft_pid){.host = society.number, .id = id};
}

/* Shows it where there is room; else it stays unknown, but to its parent. */
static void show(struct state *s, uint64_t id)
{
    for (int i = 0; i < 4 && !s->place; i++) {
        _Atomic(uint64_t) *place = some_place(&s->rand);
        uint64_t none = 0;
        s->place = atomic_compare_exchange_strong(place, &none, id) ? place : NULL;
    }
}

/* More are on their way than is good for the memory of very many. */
static bool flooded(void)
{
    long waiting = atomic_load(&society.sent) - atomic_load(&society.seen);
    return waiting - atomic_load(&society.dead) > society.opts->population / 2 + 10000;
}

/* There is room for more of them. */
static bool sparse(void)
{
    return atomic_load(&society.begun) - atomic_load(&society.closed) < society.opts->population;
}

/* Whether there was somebody. */
static bool sends(weft_pid to, uint64_t tag)
{
    int err = weft_actor_send(to, "n", tag, weft_buf_copy(&tag, sizeof tag));
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

/* --- what one is told ---------------------------------------------------------------------------- */

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
    if (!last) { /* forgets somebody */
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
    while (i < TIES && s->refs[i] != ref) {
        i++;
    }
    CHECK(i < TIES); /* else it was told before, or taken back */
    s->refs[i] = 0;
    atomic_fetch_add(&society.told, 1);
}

/* Answers now, later, by another actor, or not at all. */
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
        weft_actor_send(pick(&s->rand), "answer", call, NULL);
        break;
    case 2:
        break;
    default:
        weft_actor_reply(call, 0, weft_buf_copy("yes", 4));
        break;
    }
}

/* Whether it is to do something. */
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
        CHECK_EQ(e->tag, s->call); /* else it was complete before */
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

/* --- what it does -------------------------------------------------------------------------------- */

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
    while (free < TIES && s->refs[free]) {
        free++;
    }
    struct weft_actor_spawn_opts opts = {
        .input = input,
        .self = self,
        .link = roll(&s->rand, 2),
        .name = roll(&s->rand, 4) ? NULL : name,
        .monitor = free < TIES ? &ref : NULL,
        .topic = "n",
        .tag = tag,
        .message = weft_buf_copy(&tag, sizeof tag),
    };
    weft_pid pid;
    int err = weft_actor_spawn_with(society.host, &pid, &society_kinds[0], &opts);
    CHECK(err == 0 || err == 1 || err == -ESHUTDOWN || err == -ENOBUFS);
    atomic_fetch_add(&society.sent, err >= 0);
    if (err == 0 && free < TIES) {
        s->refs[free] = ref;
    }
    weft_buf_free(input);
}

/* How many more are watched. */
static int watches(weft_actor *self, struct state *s)
{
    int i = (int)roll(&s->rand, TIES);
    if (s->refs[i]) {
        CHECK_EQ(weft_actor_demonitor(self, s->refs[i]), 0); /* it has not told: so it will not */
        s->refs[i] = 0;
        return -1;
    }
    weft_pid other = pick(&s->rand);
    int err = weft_actor_monitor(self, other, &s->refs[i]);
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

/* To one for a while, so that there is an order to keep. */
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

/* In groups that stay small, however many there are of them all. */
static void publishes(weft_actor *self, struct state *s)
{
    char group[16];
    snprintf(group, sizeof group, "g%u",
             roll(&s->rand, (unsigned)society.opts->population / 8 + 1));
    weft_actor_group_join(society.host, group, weft_actor_pid(self));
    weft_actor_group_publish(society.host, group, "pub", 0, NULL);
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
        if (events[i].kind == WEFT_EVENT_CANCEL) { /* what else there is it has not seen */
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

/* --- keepers ------------------------------------------------------------------------------------- */

static void ties(struct keeper *k, int more)
{
    atomic_fetch_add(k->ties, more);
}

static void unlinked(struct keeper *k, weft_pid from)
{
    int i = 0;
    while (i < TIES && !weft_pid_equal(k->linked[i], from)) {
        i++;
    }
    CHECK(i < TIES); /* else it was told before, or taken back */
    k->linked[i] = (weft_pid){.id = 0};
    atomic_fetch_add(&society.told, 1);
    ties(k, -1);
}

static void links(weft_actor *self, struct keeper *k)
{
    int i = (int)roll(&k->s.rand, TIES);
    if (k->linked[i].id) {
        CHECK_EQ(weft_actor_unlink(self, k->linked[i]), 0);
        k->linked[i] = (weft_pid){.id = 0};
        ties(k, -1);
        return;
    }
    weft_pid pid = pick(&k->s.rand);
    for (int j = 0; j < TIES; j++) {
        if (weft_pid_equal(k->linked[j], pid)) {
            return; /* it is one link */
        }
    }
    if (weft_actor_link(self, pid) == 0) {
        k->linked[i] = pid;
        ties(k, 1);
    }
}

static int keep(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct keeper *k = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        switch (events[i].kind) {
        case WEFT_EVENT_DOWN:
            down(&k->s, events[i].tag);
            ties(k, -1);
            break;
        case WEFT_EVENT_EXIT:
            unlinked(k, events[i].from);
            break;
        case WEFT_EVENT_CANCEL:
            weft_out_done(out, NULL);
            return 0;
        default:
            ties(k, watches(self, &k->s));
            links(self, k);
            break;
        }
    }
    return 0;
}

static int begin_keeper(weft_actor *self, const char *method, const weft_buf *input)
{
    struct keeper *k = weft_actor_state(self);
    begin(self, method, input);
    memcpy(&k->ties, input->data + sizeof(uint64_t), sizeof k->ties);
    return 0;
}

static const struct weft_actor_kind keeper_kind = {.name = "keeper",
                                                   .state_bytes = sizeof(struct keeper),
                                                   .init = begin_keeper,
                                                   .step = keep,
                                                   .close = close_it,
                                                   .trap = true};

static void hire(struct weft__rand *rand)
{
    long n = society.opts->keepers;
    CHECK((society.kept = calloc((size_t)n, sizeof *society.kept)) != NULL);
    CHECK((society.keepers = calloc((size_t)n, sizeof *society.keepers)) != NULL);
    for (long i = 0; i < n; i++) {
        struct {
            uint64_t seed;
            atomic_int *ties;
        } input = {weft__rand_next(rand), &society.kept[i]};
        weft_buf *buf = weft_buf_copy(&input, sizeof input);
        CHECK_EQ(weft_actor_spawn(society.safe, &society.keepers[i], &keeper_kind, NULL, buf), 0);
        weft_buf_free(buf);
    }
}

/* --- supervisors --------------------------------------------------------------------------------- */

static struct {
    weft_buf *input;
    struct weft_child_spec five[5], pattern, parts[3];
    struct weft_supervisor_opts part_opts[3], tree_opts, crowd_opts;
} plan;

/* A tree of three: one starts all, one the rest, and one gives up soon, and is started again itself. */
static void plant_tree(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"}, *const parts[] = {"all", "rest",
                                                                                    "weak"};
    for (int i = 0; i < 5; i++) {
        plan.five[i] = (struct weft_child_spec){
            .name = names[i], .kind = &child_kind, .input = plan.input, .stop_ns = 20000000};
    }
    for (int i = 0; i < 3; i++) {
        plan.part_opts[i] = (struct weft_supervisor_opts){
            .name = parts[i],
            .strategy = (enum weft_supervisor_strategy[]){WEFT_ONE_FOR_ALL, WEFT_REST_FOR_ONE,
                                                          WEFT_ONE_FOR_ONE}[i],
            .children = plan.five,
            .count = 5,
            .restarts = i < 2 ? WEFT_RESTARTS_UNLIMITED : 2,
            .window_ns = INT64_C(1000000000),
            .backoff_ns = i == 1 ? 100000 : 0,
            .backoff_max_ns = i == 1 ? 10000000 : 0,
        };
        plan.parts[i] =
            (struct weft_child_spec){.name = parts[i], .supervisor = &plan.part_opts[i]};
    }
    plan.tree_opts = (struct weft_supervisor_opts){
        .name = "tree", .children = plan.parts, .count = 3, .restarts = WEFT_RESTARTS_UNLIMITED};
    weft_pid pid;
    CHECK_EQ(weft_supervisor_start(society.host, &pid, &plan.tree_opts), 0);
    atomic_fetch_add(&society.children, TREE);
}

static void plant_crowds(void)
{
    plan.pattern = (struct weft_child_spec){.kind = &child_kind};
    plan.crowd_opts = (struct weft_supervisor_opts){.name = "crowd",
                                                    .strategy = WEFT_DYNAMIC,
                                                    .children = &plan.pattern,
                                                    .count = 1,
                                                    .restarts = WEFT_RESTARTS_UNLIMITED};
    for (int i = 0; i < CROWDS; i++) {
        CHECK_EQ(weft_supervisor_start(society.host, &society.crowds[i], &plan.crowd_opts), 0);
    }
}

/* One more child, and now and then it goes again. */
static void adopts(struct weft__rand *rand)
{
    uint64_t seed = weft__rand_next(rand);
    weft_pid crowd = society.crowds[roll(rand, CROWDS)], child;
    int err = weft_supervisor_add(crowd, weft_buf_copy(&seed, sizeof seed), &child, WEFT_FOREVER);
    CHECK(err == 0 || err == -EAGAIN);
    if (err) {
        return;
    }
    atomic_fetch_add(&society.children, 1);
    if (atomic_load(&society.children) > society.opts->children + TREE) {
        err = weft_supervisor_remove(crowd, child, WEFT_FOREVER);
        CHECK(err == 0 || err == -ENOENT); /* it has another PID by now */
        atomic_fetch_sub(&society.children, err == 0);
    }
}

/* --- from outside -------------------------------------------------------------------------------- */

static void spawn_one(struct weft__rand *rand)
{
    uint64_t seed = weft__rand_next(rand);
    weft_pid pid;
    weft_buf *input = weft_buf_copy(&seed, sizeof seed);
    CHECK_EQ(weft_actor_spawn(society.host, &pid, &society_kinds[0], NULL, input), 0);
    weft_buf_free(input);
}

static void meddle(struct weft__rand *rand, uint64_t *tag)
{
    weft_pid pid = pick(rand);
    switch (roll(rand, 64)) {
    case 0:
    case 1:
    case 2:
    case 3:
        weft_actor_kill(pid);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        weft_actor_exit(pid, -(int)roll(rand, 3), NULL);
        break;
    case 8:
    case 9:
        weft_actor_join(pid, NULL, 0);
        break;
    case 10:
    case 11:
    case 12:
    case 13:
        weft_actor_send(society.keepers[roll(rand, (unsigned)society.opts->keepers)], "go", 0,
                        NULL);
        break;
    case 14:
        weft_actor_call(pid, "call", NULL, NULL, weft_after(1000000));
        break;
    case 15:
        if (roll(rand, 16) == 0) { /* it may have to wait for long */
            adopts(rand);
        }
        break;
    default:
        for (int i = 0; i < 4 && !flooded(); i++) {
            sends(pid, (*tag)++);
        }
        break;
    }
    for (int i = 0; i < 8 && sparse(); i++) {
        spawn_one(rand);
    }
}

static double society_end;

static void *outside(void *arg)
{
    uint64_t me = *(int *)arg;
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + me);
    uint64_t tag = me << 56 | 1;
    long rounds = society.opts->rounds;
    for (long i = 0; rounds ? i < rounds : check_seconds() < society_end; i++) {
        meddle(&rand, &tag);
        watchdog_progress();
    }
    return NULL;
}

/* --- all of it ----------------------------------------------------------------------------------- */

static void society_print(double since)
{
    printf(
        "%6.1f s: %ld live of %ld begun, %ld messages seen, %ld dead, %ld ends told, %ld upgrades, "
        "%ld calls, %ld restarts\n",
        check_seconds() - since, atomic_load(&society.begun) - atomic_load(&society.closed),
        atomic_load(&society.begun), atomic_load(&society.seen), atomic_load(&society.dead),
        atomic_load(&society.told), atomic_load(&society.upgrades), atomic_load(&society.calls),
        atomic_load(&society.starts) - atomic_load(&society.children));
    fflush(stdout);
}

static void until(bool (*holds)(void))
{
    while (!holds()) { /* the watchdog sees to it that this ends */
        sched_yield();
    }
    watchdog_progress();
}

static bool all_children_run(void)
{
    return atomic_load(&society.starts) - atomic_load(&society.ends) ==
           atomic_load(&society.children);
}

static bool all_is_told(void)
{
    for (long i = 0; i < society.opts->keepers; i++) {
        if (atomic_load(&society.kept[i]) != 0) {
            return false;
        }
    }
    return true;
}

static void society_found(void)
{
    const struct society_opts *opts = society.opts;
    uint64_t seed = check_seed();
    struct weft__rand rand;
    weft__rand_seed(&rand, seed);
    atomic_store(&society.calm, true);
    CHECK_EQ(weft_host_create(&society.host, &(struct weft_host_opts){.workers = 2, .mailbox = 50}),
             0);
    CHECK_EQ(
        weft_host_create(&society.safe, &(struct weft_host_opts){.name = "safe", .workers = 1}), 0);
    CHECK_EQ(weft_host_on_dead_letter(society.host, on_dead, NULL), 0);
    CHECK((society.shown = calloc((size_t)opts->shown, sizeof *society.shown)) != NULL);
    plan.input = weft_buf_copy(&seed, sizeof seed);
    hire(&rand);
    plant_crowds();
    society.number = society.crowds[0].host;
    plant_tree();
    while (atomic_load(&society.children) < opts->children + TREE) {
        adopts(&rand);
    }
    while (sparse()) {
        spawn_one(&rand);
    }
}

static void society_turmoil(double since)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    atomic_store(&society.calm, false);
    atomic_store(&society.unruly, true);
    society_end = check_seconds() + society.opts->seconds;
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t + 1;
        CHECK_EQ(pthread_create(&threads[t], NULL, outside, &numbers[t]), 0);
    }
    for (long s = 1; !society.opts->rounds && check_seconds() < society_end; s++) {
        sleep(1);
        if (s % 5 == 0) {
            society_print(since);
        }
    }
    atomic_store(&society.calm, !society.opts->rounds);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    atomic_store(&society.unruly, false);
    atomic_store(&society.calm, true);
}

static void society_run(const struct society_opts *opts)
{
    struct weft_host_stats stats;
    struct weft_buf_stats before, after;
    double since = check_seconds();
    weft_buf_stats(&before);
    memset(&society, 0, sizeof society);
    society.opts = opts;
    watchdog_start("society");
    society_found();
    society_turmoil(since);
    until(all_children_run);
    CHECK_EQ(weft_host_stop(society.host, "over", WEFT_FOREVER), 0);
    weft_host_stats(society.host, &stats);
    CHECK_EQ(stats.live, 0);
    CHECK_EQ(stats.spawned, stats.ended);
    until(all_is_told); /* those whose ends they watched have ended */
    CHECK_EQ(weft_host_stop(society.safe, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&society.begun), atomic_load(&society.closed));
    CHECK_EQ(atomic_load(&society.starts), atomic_load(&society.ends));
    CHECK_EQ(atomic_load(&society.sent) + atomic_load(&society.refused),
             atomic_load(&society.seen) + atomic_load(&society.dead));
    society_print(since);
    weft_host_destroy(society.host);
    weft_host_destroy(society.safe);
    weft_buf_free(plan.input);
    free(society.shown);
    free(society.kept);
    free(society.keepers);
    weft_buf_stats(&after);
    CHECK_EQ(after.live, before.live);
    watchdog_stop();
}

#endif
