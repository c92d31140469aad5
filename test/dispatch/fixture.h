/* One dispatcher and one group on the calling thread; and fibers of both kinds that wait to be
 * woken. */
#ifndef WEFT_TEST_DISPATCH_FIXTURE_H
#define WEFT_TEST_DISPATCH_FIXTURE_H

#include <errno.h>

#include <weft/weft.h>

#include "check.h"

#define MS INT64_C(1000000)
#define MANY_SIGNALS 65535

/* Runs fn(arg) as the first fiber of a group, with a very large wake budget, until the group has
 * finished. */
__attribute__((unused)) static void run_in_group(weft_fn fn, void *arg)
{
    weft_dispatcher *d;
    weft_group *group;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    CHECK_EQ(weft_group_create(d, &group, &(struct weft_group_opts){.slice = 1 << 30}), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, fn, arg,
                              &(struct weft_member_opts){.signals_per_round = MANY_SIGNALS}),
             0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK(weft_future_is_done(weft_group_finished(group)));
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
}

/* Creates a dispatcher with its own thread. */
__attribute__((unused)) static weft_dispatcher *
start_dispatcher(const struct weft_dispatcher_opts *opts)
{
    weft_dispatcher *d;
    CHECK_EQ(weft_dispatcher_create(&d, opts), 0);
    CHECK_EQ(weft_dispatcher_start(d), 0);
    return d;
}

__attribute__((unused)) static void stop_dispatcher(weft_dispatcher *d)
{
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
}

__attribute__((unused)) static weft_group *make_group(weft_dispatcher *d, const char *name)
{
    weft_group *group;
    CHECK_EQ(weft_group_create(d, &group, &(struct weft_group_opts){.name = name}), 0);
    return group;
}

/* Waits from a plain thread for the group's end; returns the group's exit status. */
__attribute__((unused)) static int finish_of(weft_group *group)
{
    return weft_future_get(weft_group_finished(group), NULL, WEFT_FOREVER);
}

/* --- the fibers that ran, as text ------------------------------------------------------- */

static char ran[8192];
static size_t ran_used;
#define NAME(text) ((void *)(uintptr_t)(text))

__attribute__((unused)) static void note(const char *what)
{
    ran_used += (size_t)snprintf(ran + ran_used, sizeof ran - ran_used, "%s", what);
    CHECK(ran_used < sizeof ran);
}

__attribute__((unused)) static void forget(void)
{
    ran_used = 0;
    ran[0] = 0;
}

/* --- parties: fibers that record their name whenever they are woken ------------------------ */

enum kind {
    STACK,
    FRAME,
    MIXED, /* alternately */
};

struct party {
    weft_frame frame; /* first */
    struct weft_wait wait;
    const char *name;
    weft_event event;
    int left;          /* how often it waits to be woken */
    weft_event *tells; /* the event it sets in its turn, or NULL */
};

__attribute__((unused)) static void *party_waits(void *arg)
{
    struct party *p = arg;
    for (; p->left > 0; p->left--) {
        CHECK_EQ(weft_event_wait(&p->event, WEFT_FOREVER), 0);
        weft_event_reset(&p->event);
        note(p->name);
        if (p->tells) {
            weft_event_set(p->tells);
        }
    }
    return NULL;
}

static enum weft_step party_woken(weft_frame *f, struct weft_got got);

__attribute__((unused)) static enum weft_step party_step(weft_frame *f, struct weft_got got)
{
    struct party *p = (struct party *)f;
    (void)got;
    return p->left > 0 ? weft_frame_await_event(f, &p->wait, &p->event, WEFT_FOREVER,
                                                WEFT_THEN(party_woken))
                       : weft_frame_return(f, NULL);
}

static enum weft_step party_woken(weft_frame *f, struct weft_got got)
{
    struct party *p = (struct party *)f;
    CHECK_EQ(got.status, 0);
    weft_event_reset(&p->event);
    note(p->name);
    p->left--;
    if (p->tells) {
        weft_event_set(p->tells);
    }
    return party_step(f, got);
}

__attribute__((unused)) static const struct weft_frame_kind party_kind = {.name = "party",
                                                                          .start = party_step};

/* The party begins to wait when it first runs. */
__attribute__((unused)) static void spawn_party(weft_group *group, struct party *p, enum kind kind,
                                                const char *name, int times, unsigned signals)
{
    static unsigned turn;
    struct weft_member_opts opts = {.name = name, .signals_per_round = signals};
    p->name = name;
    p->left = times;
    p->tells = NULL;
    weft_event_init(&p->event, &(struct weft_sync_opts){.name = name});
    if (kind == FRAME || (kind == MIXED && turn++ % 2)) {
        weft_frame_init(&p->frame, &party_kind);
        CHECK_EQ(weft_group_spawn_frame(group, NULL, &p->frame, &opts), 0);
    } else {
        CHECK_EQ(weft_group_spawn(group, NULL, party_waits, p, &opts), 0);
    }
}

#endif
