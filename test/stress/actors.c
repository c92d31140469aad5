/* Actors that spawn, send, kill, link, monitor, unlink, upgrade and end at random, while threads outside do the same to them.
 * Keepers in another host watch and link some of them; they trap, and nobody touches them.
 *
 * What must hold: messages from one to one come in order; each monitor and each trapped link tells exactly once, unless it was
 * taken back; every message that was accepted was seen or is a dead letter; each state that began was closed once; nobody is left.
 */
/* timeout: 300 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"

enum { THREADS = 3, KEEPERS = 2, SHOWN = 64, TIES = 8, PEERS = 8, POPULATION = 400 };

static weft_host *host, *safe;
static uint32_t number; /* of the host */
static _Atomic(uint64_t) shown[SHOWN];
static atomic_long begun, closed, sent, refused, seen, dead, told, upgrades;

struct peer {
    uint64_t id, last;
};

struct state {
    struct weft__rand rand;
    uint64_t count; /* the tag of its next message */
    struct peer peers[PEERS];
    uint64_t threads[THREADS + 1];
    uint64_t refs[TIES];
    weft_pid linked[TIES]; /* of a keeper */
    unsigned turn;
    bool keeper;
    char *owned;      /* is freed once */
    atomic_int *ties; /* a keeper's, that are to tell yet */
};

static unsigned roll(struct weft__rand *rand, unsigned n)
{
    return weft__rand_next(rand) % n;
}

static weft_pid pick(struct weft__rand *rand)
{
    return (weft_pid){.host = number, .id = atomic_load(&shown[roll(rand, SHOWN)])};
}

static void show(struct weft__rand *rand, weft_pid pid)
{
    atomic_store(&shown[roll(rand, SHOWN)], pid.id);
}

static void sends(weft_pid to, uint64_t tag)
{
    int err = weft_actor_send(to, "n", tag, weft_buf_copy(&tag, sizeof tag));
    CHECK(err == 0 || err == -ESRCH || err == -ENOBUFS);
    atomic_fetch_add(&sent, err == 0);
    atomic_fetch_add(&refused, err == -ESRCH);
}

static void on_dead(weft_host *where, const struct weft_dead_letter *letter, void *arg)
{
    (void)where, (void)arg;
    atomic_fetch_add(&dead, strcmp(letter->topic, "n") == 0);
}

/* --- what it is told ------------------------------------------------------------------------- */

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
    atomic_fetch_add(&told, 1);
    if (s->keeper) {
        atomic_fetch_sub(s->ties, 1);
    }
}

static void unlinked(struct state *s, weft_pid from)
{
    int i = 0;
    CHECK(s->keeper);
    while (i < TIES && !weft_pid_equal(s->linked[i], from)) {
        i++;
    }
    CHECK(i < TIES);
    s->linked[i] = (weft_pid){.id = 0};
    atomic_fetch_add(&told, 1);
    atomic_fetch_sub(s->ties, 1);
}

/* --- what it does --------------------------------------------------------------------------------- */

static const struct weft_actor_kind kinds[2];

static void spawns(weft_actor *self, struct state *s)
{
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    if (stats.live > POPULATION) {
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
    int err = weft_actor_spawn_with(host, &pid, &kinds[0], &opts);
    CHECK(err == 0 || err == 1 || err == -ESHUTDOWN || err == -ENOBUFS);
    atomic_fetch_add(&sent, err >= 0);
    if (err == 0) {
        show(&s->rand, pid);
        if (free < TIES) {
            s->refs[free] = ref;
        }
    }
    weft_buf_free(input);
}

static void watches(weft_actor *self, struct state *s)
{
    int i = (int)roll(&s->rand, TIES);
    if (s->refs[i]) {
        CHECK_EQ(weft_actor_demonitor(self, s->refs[i]), 0); /* it has not told: so it will not */
        s->refs[i] = 0;
    } else if (weft_actor_monitor(self, pick(&s->rand), &s->refs[i]) == 0) {
        if (s->keeper) {
            atomic_fetch_add(s->ties, 1);
        }
        return;
    }
    if (s->keeper) {
        atomic_fetch_sub(s->ties, 1);
    }
}

static void links_kept(weft_actor *self, struct state *s)
{
    int i = (int)roll(&s->rand, TIES);
    if (s->linked[i].id) {
        CHECK_EQ(weft_actor_unlink(self, s->linked[i]), 0);
        s->linked[i] = (weft_pid){.id = 0};
        atomic_fetch_sub(s->ties, 1);
        return;
    }
    weft_pid pid = pick(&s->rand);
    for (int k = 0; k < TIES; k++) {
        if (weft_pid_equal(s->linked[k], pid)) {
            return; /* it is one link */
        }
    }
    if (weft_actor_link(self, pid) == 0) {
        s->linked[i] = pid;
        atomic_fetch_add(s->ties, 1);
    }
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
    atomic_fetch_add(&begun, 1);
    atomic_fetch_add(&upgrades, 1);
    return 0;
}

static int act(weft_actor *self, struct state *s, weft_out *out)
{
    char name[8];
    snprintf(name, sizeof name, "n%u", roll(&s->rand, 10));
    switch (roll(&s->rand, 40)) {
    case 0:
    case 1:
    case 2:
    case 3:
        spawns(self, s);
        break;
    case 4:
    case 5:
        watches(self, s);
        break;
    case 6:
        weft_actor_link(self, pick(&s->rand));
        break;
    case 7:
        weft_actor_unlink(self, pick(&s->rand));
        break;
    case 8:
        weft_actor_kill(pick(&s->rand));
        break;
    case 9:
        weft_actor_exit(pick(&s->rand), -(int)roll(&s->rand, 3), weft_buf_copy("bye", 4));
        break;
    case 10:
    case 11:
        CHECK_EQ(weft_out_upgrade(out, &kinds[roll(&s->rand, 2)], convert), 0);
        break;
    case 12:
        weft_out_done(out, weft_buf_copy("done", 5));
        break;
    case 13:
        return -EIO;
    case 14:
        weft_out_exit(out, -EPIPE, weft_buf_copy("pipe", 5));
        break;
    case 15:
        weft_actor_register(host, name, weft_actor_pid(self));
        break;
    case 16:
        weft_actor_group_join(host, name, weft_actor_pid(self));
        weft_actor_group_publish(host, name, "pub", 0, NULL);
        break;
    default:
        sends(pick(&s->rand), s->count++);
        sends(pick(&s->rand), s->count++);
        weft_out_continue(out);
        break;
    }
    return 0;
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct state *s = weft_actor_state(self);
    bool cancelled = false, woken = n == 0;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        switch (events[i].kind) {
        case WEFT_EVENT_MESSAGE:
            woken = true;
            if (strcmp(events[i].topic, "n") == 0) {
                atomic_fetch_add(&seen, 1);
                in_order(s, &events[i]);
            }
            break;
        case WEFT_EVENT_DOWN:
            down(s, events[i].tag);
            break;
        case WEFT_EVENT_EXIT:
            unlinked(s, events[i].from);
            break;
        case WEFT_EVENT_CANCEL:
            cancelled = true;
            break;
        default:
            break;
        }
    }
    if (cancelled) {
        weft_out_done(out, NULL);
        return 0;
    }
    if (s->keeper && woken) {
        watches(self, s);
        links_kept(self, s);
    }
    return s->keeper || !woken ? 0 : act(self, s, out);
}

static int begin(weft_actor *self, const char *method, const weft_buf *input)
{
    struct state *s = weft_actor_state(self);
    uint64_t seed;
    (void)method;
    memcpy(&seed, input->data, sizeof seed);
    weft__rand_seed(&s->rand, seed);
    s->owned = strdup("owned");
    s->count = 1;
    atomic_fetch_add(&begun, 1);
    return 0;
}

static atomic_int kept[KEEPERS];

static int begin_keeper(weft_actor *self, const char *method, const weft_buf *input)
{
    struct state *s = weft_actor_state(self);
    begin(self, method, input);
    s->keeper = true;
    s->ties = &kept[method[0] - '0'];
    return 0;
}

static void close_it(weft_actor *self)
{
    struct state *s = weft_actor_state(self);
    free(s->owned);
    atomic_fetch_add(&closed, 1);
}

static const struct weft_actor_kind kinds[2] = {{.name = "old",
                                                 .state_bytes = sizeof(struct state),
                                                 .init = begin,
                                                 .step = step,
                                                 .close = close_it},
                                                {.name = "new",
                                                 .state_bytes = sizeof(struct state),
                                                 .step = step,
                                                 .close = close_it,
                                                 .mailbox = 30}};
static const struct weft_actor_kind keeper_kind = {.name = "keeper",
                                                   .state_bytes = sizeof(struct state),
                                                   .init = begin_keeper,
                                                   .step = step,
                                                   .close = close_it,
                                                   .trap = true};

static int ends(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_done(out, NULL);
    return 0;
}
static const struct weft_actor_kind brief_kind = {.name = "first", .step = ends};

/* --- from outside ------------------------------------------------------------------------------------ */

static weft_pid keepers[KEEPERS];

static weft_pid spawn_one(uint64_t seed)
{
    weft_pid pid = {.id = 0};
    weft_buf *input = weft_buf_copy(&seed, sizeof seed);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kinds[0], NULL, input), 0);
    weft_buf_free(input);
    return pid;
}

static void *outside(void *arg)
{
    uint64_t me = *(int *)arg;
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + me);
    long rounds = check_scale(150000);
    uint64_t tag = me << 56 | 1;
    for (long i = 0; i < rounds; i++) {
        weft_pid pid = pick(&rand);
        switch (roll(&rand, 16)) {
        case 0:
        case 1:
            show(&rand, spawn_one(weft__rand_next(&rand)));
            break;
        case 2:
            weft_actor_kill(pid);
            break;
        case 3:
            weft_actor_exit(pid, -(int)roll(&rand, 3), NULL);
            break;
        case 4:
            weft_actor_join(pid, NULL, 0);
            break;
        case 5:
            weft_actor_send(keepers[roll(&rand, KEEPERS)], "go", 0, NULL);
            break;
        default:
            sends(pid, tag++);
            break;
        }
    }
    return NULL;
}

TEST(whatever_they_do_all_is_told_and_nothing_left)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    struct weft_host_stats stats;
    check_seed();
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2, .mailbox = 50}), 0);
    CHECK_EQ(weft_host_create(&safe, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_on_dead_letter(host, on_dead, NULL), 0);
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed());
    weft_pid first;
    CHECK_EQ(weft_actor_spawn(host, &first, &brief_kind, NULL, NULL), 0);
    number = first.host;
    for (int i = 0; i < SHOWN; i++) {
        atomic_store(&shown[i], spawn_one(weft__rand_next(&rand)).id);
    }
    for (int i = 0; i < KEEPERS; i++) {
        char method[2] = {(char)('0' + i), 0};
        uint64_t seed = weft__rand_next(&rand);
        weft_buf *input = weft_buf_copy(&seed, sizeof seed);
        CHECK_EQ(weft_actor_spawn(safe, &keepers[i], &keeper_kind, method, input), 0);
        weft_buf_free(input);
    }
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t + 1;
        pthread_create(&threads[t], NULL, outside, &numbers[t]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    CHECK_EQ(weft_host_stop(host, "over", WEFT_FOREVER), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.spawned, stats.ended);
    for (int i = 0; i < KEEPERS; i++) { /* those whose ends they watched have ended: each is told */
        while (atomic_load(&kept[i]) != 0) {
            sched_yield();
        }
    }
    CHECK_EQ(weft_host_stop(safe, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&begun), atomic_load(&closed));
    CHECK_EQ(atomic_load(&sent) + atomic_load(&refused), atomic_load(&seen) + atomic_load(&dead));
    printf("%ld actors and states, %ld upgrades, %ld messages seen, %ld dead, %ld ends told\n",
           atomic_load(&begun), atomic_load(&upgrades), atomic_load(&seen), atomic_load(&dead),
           atomic_load(&told));
    weft_host_destroy(host);
    weft_host_destroy(safe);
}
