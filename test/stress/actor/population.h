/* A population of actors that spawn, send, call, kill, link, monitor, unlink, upgrade and end at
 * random, some of them under supervisors that restart them, while outside threads do the same to
 * them. Monitoring actors in another host monitor and link some of them; these trap exits, and
 * nothing disturbs them. test/stress/actor/actors.c runs a small population, test/soak/actors.c a
 * large one.
 *
 * Invariants:
 *   - messages from one sender to one receiver arrive in order;
 *   - every accepted message was received or is a dead letter;
 *   - each monitor and each trapped link notifies exactly once, unless it was removed;
 *   - each call of an actor completes once;
 *   - when the disturbance is over, every child of a supervisor runs;
 *   - each initialized state was closed once, and no actor and no buffer is left.
 */
#ifndef WEFT_TEST_STRESS_ACTOR_POPULATION_H
#define WEFT_TEST_STRESS_ACTOR_POPULATION_H

#include <pthread.h>
#include <sched.h>

#include "stress/actor/monitoring_actor.h"
#include "stress/watchdog.h"

/* --- supervisors ------------------------------------------------------------------------------ */

static struct {
    weft_buf *input;
    struct weft_child_spec five[5], pattern, parts[3];
    struct weft_supervisor_opts part_opts[3], tree_opts, crowd_opts;
} plan;

/* A supervision tree of three parts: one restarts all children, one the rest, and one gives up soon
 * and is restarted itself. */
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

/* Adds a dynamic child, and sometimes removes it again. */
static void adopts(struct weft__rand *rand)
{
    uint64_t seed = weft__rand_next(rand);
    weft_pid crowd = society.crowds[roll(rand, CROWDS)], child;
    int err = weft_supervisor_add(crowd, &child, weft_buf_copy(&seed, sizeof seed), WEFT_FOREVER);
    CHECK(err == 0 || err == -EAGAIN);
    if (err) {
        return;
    }
    atomic_fetch_add(&society.children, 1);
    if (atomic_load(&society.children) > society.opts->children + TREE) {
        err = weft_supervisor_remove(crowd, child, WEFT_FOREVER);
        CHECK(err == 0 || err == -ENOENT); /* the child was restarted and has another PID */
        atomic_fetch_sub(&society.children, err == 0);
    }
}

/* --- from outside ----------------------------------------------------------------------------- */

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
        weft_actor_send(society.keepers[roll(rand, (unsigned)society.opts->keepers)], "go", 0, NULL,
                        WEFT_BY_POLICY);
        break;
    case 14:
        weft_actor_call(pid, NULL, "call", NULL, weft_after(1000000));
        break;
    case 15:
        if (roll(rand, 16) == 0) { /* the caller may wait for long */
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

/* --- the whole run ---------------------------------------------------------------------------- */

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
    while (!holds()) { /* the watchdog ends this loop if nothing changes */
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
    until(all_is_told); /* all monitored actors have ended */
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
