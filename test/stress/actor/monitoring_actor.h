/* Monitoring actors of a population (stress/actor/population.h): they monitor and link members,
 * trap exits, and count the notifications still expected. */
#ifndef WEFT_TEST_STRESS_ACTOR_MONITORING_ACTOR_H
#define WEFT_TEST_STRESS_ACTOR_MONITORING_ACTOR_H

#include "stress/actor/random_actor.h"

struct keeper {
    struct state s;
    atomic_int *ties;
    weft_pid linked[RELATIONS];
};

static void ties(struct keeper *k, int more)
{
    atomic_fetch_add(k->ties, more);
}

static void unlinked(struct keeper *k, weft_pid from)
{
    int i = 0;
    while (i < RELATIONS && !weft_pid_equal(k->linked[i], from)) {
        i++;
    }
    CHECK(i < RELATIONS); /* otherwise it was notified before, or removed */
    k->linked[i] = (weft_pid){.id = 0};
    atomic_fetch_add(&society.told, 1);
    ties(k, -1);
}

/* A notification that this step has already received cannot be cancelled in the step. */
static bool tells_end(const struct weft_actor_event *events, size_t n, weft_pid of)
{
    size_t i = 0;
    while (i < n && !(events[i].kind == WEFT_EVENT_EXIT && weft_pid_equal(events[i].from, of))) {
        i++;
    }
    return i < n;
}

/* `later`: the events of this step that come next. */
static void links(weft_actor *self, struct keeper *k, const struct weft_actor_event *later,
                  size_t n)
{
    int i = (int)roll(&k->s.rand, RELATIONS);
    if (k->linked[i].id && tells_end(later, n, k->linked[i])) {
        return;
    }
    if (k->linked[i].id) {
        CHECK_EQ(weft_actor_unlink(self, k->linked[i]), 0);
        k->linked[i] = (weft_pid){.id = 0};
        ties(k, -1);
        return;
    }
    weft_pid pid = pick(&k->s.rand);
    for (int j = 0; j < RELATIONS; j++) {
        if (weft_pid_equal(k->linked[j], pid)) {
            return; /* both sides share one link */
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
            links(self, k, &events[i + 1], n - i - 1);
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

#endif
