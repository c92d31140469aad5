/* Clients of relation/relation.c and relation/link_monitor.c: ends against ends, and against
 * threads that link, unlink, monitor, demonitor and join. Actors are records here, and no worker
 * runs them: a thread ends an actor, or calls what a step would call. */
#define FIBERS 1
#define TASKS 3
#define WITH_EXITS
#include "model/actor/actors.h"

enum { PLACED = FIRST_COUNTER };
enum { ACTORS = 3 };

static weft_actor records[ACTORS + 1]; /* by slot */
static weft_host host;
static uint64_t ref;
static int result;

weft_actor *weft__actor_find(uint32_t slot)
{
    return slot >= 1 && slot <= ACTORS ? &records[slot] : NULL;
}

weft_host *weft__host_at(uint32_t number)
{
    return number == 1 ? &host : NULL;
}

weft_pid weft_actor_pid(const weft_actor *self)
{
    return (weft_pid){.host = 1, .id = self->self};
}

/* No sender waits for capacity. */
void weft__pending_send_complete(struct weft__pending_send *send, int error)
{
    (void)send, (void)error;
    x_fail("a pending send that was never made");
}

void weft__fiber_apply_exits(weft_actor *actor)
{
    (void)actor;
}
void weft__mailbox_drop_excess(weft_actor *actor, weft_pid self)
{
    (void)actor, (void)self;
    x_fail("a message too many");
}
void weft__name_release(struct weft__relation *tie)
{
    (void)tie;
}
void weft__group_release(struct weft__relation *tie)
{
    (void)tie;
}
weft_buf *weft_buf_share(const weft_buf *buf)
{
    (void)buf;
    return NULL;
}
const struct weft__stackless_kind weft__actor_body = {.what = "none"};

static const struct weft_actor_kind kind = {.name = "model"};

static weft_pid pid(unsigned slot)
{
    return (weft_pid){.host = 1, .id = (uint64_t)GENERATION << 32 | slot};
}

static void setup(void)
{
    fibers_setup();
    memset(&workers[0].small, 0, sizeof workers[0].small);
    memset(records, 0, sizeof records);
    memset(&host, 0, sizeof host);
    weft__exit_records_init(&host.exits, 2);
    ref = 0;
    result = 1;
    for (unsigned slot = 1; slot <= ACTORS; slot++) {
        weft_actor *actor = &records[slot];
        actor->self = pid(slot).id;
        actor->kind = &kind;
        actor->host = &host;
        actor->live_state = true;
        atomic_init(&tasks[slot - 1].state, WEFT__TASK_RUNNING);
        atomic_init(&actor->admission, (uint64_t)weft__pid_generation(pid(slot))
                                           << WEFT__ADMISSION_SHIFT);
    }
    x_name(records, sizeof records, "records");
}

static void setup_linked(void)
{
    setup();
    X_ASSERT(weft_actor_link(&records[1], pid(2)) == 0);
}

static void setup_monitored(void)
{
    setup();
    X_ASSERT(weft_actor_monitor(&records[2], &ref, pid(1)) == 0);
}

static void ends(unsigned slot)
{
    weft__actor_end(&records[slot], &(struct weft__end){.error = -EIO});
}

/* The notifications that an actor got, which are freed; the actor has not ended. */
static int told(unsigned slot, unsigned what, int error)
{
    weft_actor *actor = &records[slot];
    struct weft__link *lists[] = {actor->urgent, weft__inbox_drain_local(&actor->system)};
    int count = 0;
    actor->urgent = NULL;
    for (int i = 0; i < 2; i++) {
        while (lists[i]) {
            struct weft__envelope *envelope = (struct weft__envelope *)(void *)lists[i];
            lists[i] = lists[i]->next;
            X_ASSERT(envelope->kind == what && envelope->from_id == pid(1).id);
            X_ASSERT(envelope->error == error || envelope->error == -EIO);
            weft__envelope_free(envelope);
            count++;
        }
    }
    return count;
}

/* The other actors have no relations, and no thread waits for an actor that has ended. */
static void rest(unsigned ended)
{
    weft__exit_records_free(&host.exits);
    weft__small_flush(&workers[0].small); /* the exit record that it keeps for a later join */
    for (unsigned slot = 1; slot <= ACTORS; slot++) {
        X_ASSERT(!records[slot].relations);
        if (ended >> slot & 1) {
            X_ASSERT(!records[slot].live_state && weft__inbox_is_empty(&records[slot].system));
        }
    }
}

/* --- ends against ends ----------------------------------------------------------------------- */

static void setup_two(void)
{
    setup_linked();
    X_ASSERT(weft_actor_monitor(&records[2], &ref, pid(1)) == 0);
}

static void two_exit(int i)
{
    ends((unsigned)i + 1);
}

static void two_ended(void)
{
    rest(6);
    X_ASSERT(x_counted(BURIED) >= 1 &&
             x_counted(BURIED) <= 2); /* the link's, possibly also the monitor's */
}

static void setup_ring(void)
{
    setup();
    for (unsigned slot = 1; slot <= 3; slot++) {
        X_ASSERT(weft_actor_link(&records[slot], pid(slot % 3 + 1)) == 0);
    }
}

static void ring_ended(void)
{
    rest(14);
    X_ASSERT(x_counted(BURIED) == 3); /* each link notified one of its two actors */
}

/* --- an end against the other actor of the relation ------------------------------------------- */

static void exit_against_link(int i)
{
    if (i == 0) {
        ends(1);
    } else {
        result = weft_actor_link(&records[2], pid(1));
    }
}

static void linked_or_not(void)
{
    rest(2);
    X_ASSERT(result == 0 || result == -ESRCH);
    X_ASSERT(told(2, WEFT_EVENT_EXIT, -EIO) == (result == 0));
}

static void exit_against_unlink(int i)
{
    if (i == 0) {
        ends(1);
    } else {
        X_ASSERT(weft_actor_unlink(&records[2], pid(1)) == 0);
        X_ASSERT(told(2, WEFT_EVENT_EXIT, -EIO) == 0); /* not any more, from now on */
    }
}

static void not_told(void)
{
    rest(2);
    X_ASSERT(told(2, WEFT_EVENT_EXIT, -EIO) == 0);
}

static void exit_against_monitor(int i)
{
    if (i == 0) {
        ends(1);
    } else {
        X_ASSERT(weft_actor_monitor(&records[2], &ref, pid(1)) == 0);
    }
}

static void told_once(void)
{
    rest(2);
    X_ASSERT(told(2, WEFT_EVENT_DOWN, -ESRCH) == 1);
}

static void exit_against_demonitor(int i)
{
    if (i == 0) {
        ends(1);
    } else {
        X_ASSERT(weft_actor_demonitor(&records[2], ref) == 0);
        X_ASSERT(told(2, WEFT_EVENT_DOWN, -EIO) == 0);
    }
}

/* A thread joins an actor that is linked: whatever the join returns, the linked actor was notified
 * before. */
static void exit_against_join(int i)
{
    if (i == 0) {
        ends(1);
    } else {
        result = weft_actor_join(pid(1), NULL, WEFT_FOREVER);
        X_ASSERT(result == -EIO); /* joined, or kept */
        X_ASSERT(told(2, WEFT_EVENT_EXIT, -EIO) == 1);
    }
}

static void joined(void)
{
    rest(2);
    X_ASSERT(told(2, WEFT_EVENT_EXIT, -EIO) == 0);
}

/* An ending actor has a relation to a lower slot, which is removed and added again, to another
 * actor. */
static void setup_upper(void)
{
    setup();
    X_ASSERT(weft_actor_link(&records[3], pid(2)) == 0);
}

static void exit_against_relink(int i)
{
    if (i == 0) {
        ends(3);
    } else {
        X_ASSERT(weft_actor_unlink(&records[2], pid(3)) == 0);
        result = weft_actor_link(&records[1], pid(3));
    }
}

static void relinked(void)
{
    rest(8);
    struct weft__link *envelope = weft__inbox_drain_local(&records[1].system);
    X_ASSERT((envelope != NULL) == (result == 0));
    X_ASSERT(weft__inbox_is_empty(&records[2].system) && !records[2].urgent);
    if (envelope) {
        X_ASSERT(!envelope->next);
        weft__envelope_free((struct weft__envelope *)(void *)envelope);
    }
}

/* --- a kill through a link -------------------------------------------------------------------- */

static int drained(unsigned slot, unsigned what)
{
    struct weft__link *envelopes = weft__inbox_drain_local(&records[slot].system);
    int count = 0;
    while (envelopes) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)envelopes;
        envelopes = envelopes->next;
        X_ASSERT(envelope->kind == what);
        weft__envelope_free(envelope);
        count++;
    }
    return count;
}

static void kill_against_exit(int i)
{
    if (i == 0) {
        weft__link_kill(&records[1], pid(2));
    } else {
        ends(2);
    }
}

/* The thread that gets the link first has its envelope: the other actor is notified, or this actor
 * is killed, too late. */
static void killed_or_ended(void)
{
    rest(4);
    X_ASSERT(drained(1, WEFT_EVENT_EXIT) + x_counted(BURIED) == 1);
}

static void kill_against_unlink(int i)
{
    if (i == 0) {
        weft__link_kill(&records[1], pid(2));
    } else {
        X_ASSERT(weft_actor_unlink(&records[2], pid(1)) == 0);
    }
}

static void killed_or_free(void)
{
    rest(0);
    X_ASSERT(drained(1, WEFT_EVENT_EXIT) == 0);
    struct weft__link *urgent = records[2].urgent; /* where the unlink looked */
    X_ASSERT(!urgent || !urgent->next);
    if (urgent) {
        X_ASSERT(((struct weft__envelope *)(void *)urgent)->kind == WEFT__ENVELOPE_KILL);
        weft__envelope_free((struct weft__envelope *)(void *)urgent);
    }
    X_ASSERT(drained(2, WEFT__ENVELOPE_KILL) + (urgent != NULL) <= 1);
}

static const struct x_client clients[] = {
    X_CLIENT("kill_against_exit", 2, setup_linked, kill_against_exit, killed_or_ended,
             .preemptions = 3, .stale = 2),
    X_CLIENT("kill_against_unlink", 2, setup_linked, kill_against_unlink, killed_or_free,
             .preemptions = 3, .stale = 2),
    X_CLIENT("exit_against_link", 2, setup, exit_against_link, linked_or_not),
    X_CLIENT("exit_against_unlink", 2, setup_linked, exit_against_unlink, not_told,
             .preemptions = 3, .stale = 2),
    X_CLIENT("exit_against_monitor", 2, setup, exit_against_monitor, told_once),
    X_CLIENT("exit_against_demonitor", 2, setup_monitored, exit_against_demonitor, not_told,
             .preemptions = 3, .stale = 2),
    X_CLIENT("exit_against_relink", 2, setup_upper, exit_against_relink, relinked, .preemptions = 3,
             .stale = 2),
    X_CLIENT("exit_against_join", 2, setup_linked, exit_against_join, joined, .preemptions = 3,
             .stale = 2),
    X_CLIENT("two_exit", 2, setup_two, two_exit, two_ended, .preemptions = 2, .stale = 1),
    X_CLIENT("ring_of_three", 3, setup_ring, two_exit, ring_ended, .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
