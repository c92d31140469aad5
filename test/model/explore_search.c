/* Which choice next.
 *
 * An execution is a sequence of choices: which thread, which store a load reads, whether an
 * operation fails spuriously. EXHAUSTIVE explores them depth first: it repeats the choices up to
 * the last one that has an alternative, takes that alternative, and from there the first of each. A
 * scheduling choice at a state that was met before ends the execution (PRUNED), because what
 * follows was or will be explored. RANDOM chooses evenly, newest stores more often; PCT (Burckhardt
 * et al. 2010) runs the thread with the highest of random priorities and lowers it at a few random
 * steps. REPLAY repeats a string. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/explore_internal.h"

#define CHOICES 16384
#define PCT_CHANGES 3

struct search search;
bool search_prunes = true;

static struct {
    uint8_t chosen, of;
} choices[CHOICES];
static int choice_count; /* made in this execution */
static int fixed;        /* this many are given */
static uint64_t random_state;
static int pct_at[PCT_CHANGES], pct_length, scheduled;

/* ---- sets of states ---- */

static struct set {
    uint64_t *slots;
    size_t slot_count, count;
} visited, ended;

static void set_clear(struct set *set)
{
    free(set->slots);
    *set = (struct set){0};
}

static bool set_insert(struct set *set, uint64_t state)
{
    for (size_t at = state & (set->slot_count - 1);; at = (at + 1) & (set->slot_count - 1)) {
        if (set->slots[at] == state) {
            return false;
        }
        if (!set->slots[at]) {
            set->slots[at] = state;
            return true;
        }
    }
}

/* True if it is new. */
static bool set_add(struct set *set, uint64_t state)
{
    if (set->count * 2 >= set->slot_count) {
        struct set grown = {.slot_count = set->slot_count ? set->slot_count * 2 : 1 << 12};
        grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
        if (!grown.slots) {
            fprintf(stderr, "explorer: no memory for %zu states\n", grown.slot_count);
            exit(2);
        }
        for (size_t i = 0; i < set->slot_count; i++) {
            if (set->slots[i]) {
                set_insert(&grown, set->slots[i]);
            }
        }
        grown.count = set->count;
        set_clear(set);
        *set = grown;
    }
    bool new = set_insert(set, state | 1);
    set->count += new;
    return new;
}

/* ---- choices ---- */

static uint64_t next_random(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int record(int chosen, int of)
{
    if (choice_count == CHOICES) {
        x_fail("livelock: more than %d choices", CHOICES);
    }
    choices[choice_count].chosen = (uint8_t)chosen;
    choices[choice_count++].of = (uint8_t)of;
    return chosen;
}

int search_choose(int n)
{
    if (n > 36) {
        x_fail("explorer: a choice among %d", n);
    }
    if (choice_count < fixed) {
        int chosen = choices[choice_count].chosen;
        if (search.strategy == EXHAUSTIVE && choices[choice_count].of != n) {
            x_fail("explorer: the client does not do the same on the same choices");
        }
        return record(chosen < n ? chosen : 0, n);
    }
    bool newest = search.strategy == EXHAUSTIVE || search.strategy == REPLAY || next_random() % 3;
    return record(newest ? 0 : (int)(next_random() % (uint64_t)n), n);
}

static int pct_pick(struct thread *const *enabled, int n)
{
    scheduled++;
    for (int i = 0; i < PCT_CHANGES; i++) {
        if (pct_at[i] == scheduled) {
            enabled[0]->priority = -1 - i;
        }
    }
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (enabled[i]->priority == 0) { /* not drawn yet */
            enabled[i]->priority = 1 + (int)(next_random() % 1000000);
        }
        if (enabled[i]->priority > enabled[best]->priority) {
            best = i;
        }
    }
    return best;
}

int search_schedule(struct thread *const *enabled, int n, uint64_t state)
{
    if (choice_count < fixed) {
        return n > 1 ? search_choose(n) : 0;
    }
    if (search.strategy == EXHAUSTIVE && !set_add(&visited, state) && search_prunes) {
        end_execution(PRUNED);
    }
    if (n == 1) {
        return 0;
    }
    switch (search.strategy) {
    case RANDOM:
        return record((int)(next_random() % (uint64_t)n), n);
    case PCT:
        return record(pct_pick(enabled, n), n);
    default:
        return record(0, n);
    }
}

/* ---- executions ---- */

void search_start(enum strategy strategy, uint64_t seed)
{
    if (strategy == EXHAUSTIVE) {
        memset(&search, 0, sizeof search);
        set_clear(&visited);
        set_clear(&ended);
    }
    search.strategy = strategy;
    search.seed = seed;
    random_state = seed;
    fixed = 0;
    choice_count = 0;
    pct_length = pct_length > 20 ? pct_length : 20;
}

void search_begin_execution(void)
{
    choice_count = 0;
    scheduled = 0;
    if (search.strategy == PCT) {
        for (int i = 0; i < PCT_CHANGES; i++) {
            pct_at[i] = 1 + (int)(next_random() % (uint64_t)pct_length);
        }
    }
}

void search_completed(void)
{
    search.complete++;
    if (search.strategy == EXHAUSTIVE) {
        search.graphs += set_add(&ended, graph_hash);
    }
}

bool search_next(void)
{
    search.states = visited.count;
    search.depth = choice_count > search.depth ? choice_count : search.depth;
    pct_length = scheduled > pct_length ? scheduled : pct_length;
    if (search.strategy != EXHAUSTIVE) {
        return search.strategy != REPLAY;
    }
    while (choice_count > 0 &&
           choices[choice_count - 1].chosen + 1 == choices[choice_count - 1].of) {
        choice_count--;
    }
    if (choice_count == 0) {
        return false;
    }
    choices[choice_count - 1].chosen++;
    fixed = choice_count;
    return true;
}

void search_script(const char *string)
{
    search.strategy = REPLAY;
    for (fixed = 0; string[fixed] && fixed < CHOICES; fixed++) {
        char c = string[fixed];
        choices[fixed].chosen = (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
}

const char *search_string(void)
{
    static char string[CHOICES + 1];
    for (int i = 0; i < choice_count; i++) {
        string[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[choices[i].chosen];
    }
    /* Missing choices are 0. */
    int length = choice_count;
    while (length > 0 && string[length - 1] == '0') {
        length--;
    }
    string[length] = '\0';
    return string;
}
