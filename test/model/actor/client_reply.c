/* Clients of mailbox/pending.c and command/call.c: the reply to a call against the end of the
 * called actor, of the actor that has the call by a transfer, of the caller, and against the
 * deadline. Whichever comes first, the caller gets exactly one of them. Actors are records here,
 * and no worker runs them: a thread ends an actor, or calls what a step would call. Where thread 0
 * calls, it is a fiber. */
#define FIBERS 1
#define TASKS 3
#define WITH_PENDING
#include "model/actor/actors.h"

#include "command/call.h"
#include "command/command_request.h"

enum { ACTORS = 3, CALLEE = 1, SECOND = 2, CALLER = 3, TAG = 7 };

static weft_actor records[ACTORS + 1]; /* by slot */
static weft_host host;
static uint64_t ref;
static _Atomic(uint64_t) told_ref;
static int result, replied;
static _Atomic(int) clock_state;
static weft_timer *timer;
static weft_timer_fn timer_fn;
static void *timer_arg;

weft_actor *weft__actor_find(uint32_t slot)
{
    return slot >= 1 && slot <= ACTORS ? &records[slot] : NULL;
}

weft_pid weft_actor_pid(const weft_actor *self)
{
    return (weft_pid){.host = 1, .id = self->self};
}

/* --- the environment -------------------------------------------------------------------------- */

/* One timer: idle, pending or running. */
enum { CLOCK_IDLE, CLOCK_PENDING, CLOCK_RUNNING };

void weft_timer_init(weft_timer *t, weft_timer_fn fn, void *arg, const struct weft_timer_opts *opts)
{
    (void)opts;
    X_ASSERT(!timer);
    timer = t;
    timer_fn = fn;
    timer_arg = arg;
}
void weft_timer_deinit(weft_timer *t)
{
    X_ASSERT(t == timer &&
             atomic_load_explicit(&clock_state, memory_order_relaxed) == CLOCK_RUNNING);
}
bool weft_timer_set(weft_timer *t, int64_t deadline)
{
    X_ASSERT(t == timer && deadline == LATER);
    atomic_store_explicit(&clock_state, CLOCK_PENDING, memory_order_release);
    return false;
}
int weft_timer_cancel(weft_timer *t)
{
    int state = CLOCK_PENDING;
    X_ASSERT(t == timer);
    if (atomic_compare_exchange_strong_explicit(&clock_state, &state, CLOCK_IDLE,
                                                memory_order_acq_rel, memory_order_acquire)) {
        return WEFT_TIMER_CANCELLED;
    }
    return state == CLOCK_RUNNING ? WEFT_TIMER_RUNNING : WEFT_TIMER_IDLE;
}
static void time_passes(void)
{
    int state = CLOCK_PENDING;
    if (atomic_compare_exchange_strong_explicit(&clock_state, &state, CLOCK_RUNNING,
                                                memory_order_acq_rel, memory_order_acquire)) {
        timer_fn(timer, timer_arg, 1);
    }
}

int64_t weft_now(void)
{
    return TWIN_NOW;
}
void weft__pending_send_complete(struct weft__pending_send *send, int error)
{
    (void)send, (void)error;
    x_fail("a pending send that was never made");
}
void weft__pending_send_free(struct weft__pending_send *send)
{
    (void)send;
    x_fail("a pending send that was never made");
}
void weft__mailbox_drop_excess(weft_actor *actor, weft_pid self)
{
    (void)actor, (void)self;
    x_fail("a message too many");
}
void weft__relations_remove_all(weft_actor *actor, struct weft__end *end)
{
    (void)end;
    X_ASSERT(!actor->relations);
}
void weft__exit_reason_unref(struct weft__exit_reason *exit_reason)
{
    (void)exit_reason;
}
weft_buf *weft_buf_share(const weft_buf *buf)
{
    (void)buf;
    return NULL;
}
int weft__command_request_issue(weft_out *out, unsigned id, uint64_t tag,
                                const struct weft__command_request *request, size_t bytes)
{
    (void)out, (void)id, (void)tag, (void)request, (void)bytes;
    x_fail("a step asks");
    return 0;
}
const struct weft__stackless_kind weft__actor_body = {.what = "none"};
static const struct weft_actor_kind kind = {.name = "model"};

/* --- calls ------------------------------------------------------------------------------------ */

static weft_pid pid(unsigned slot)
{
    return (weft_pid){.host = 1, .id = (uint64_t)GENERATION << 32 | slot};
}

static void setup(void)
{
    fibers_setup();
    weft__admission_reset();
    weft__pending_reset(false);
    memset(&workers[0].small, 0, sizeof workers[0].small);
    memset(records, 0, sizeof records);
    memset(&host, 0, sizeof host);
    ref = 0;
    result = replied = 1;
    timer = NULL;
    atomic_init(&told_ref, 0);
    atomic_init(&clock_state, CLOCK_IDLE);
    for (unsigned slot = 1; slot <= ACTORS; slot++) {
        weft_actor *actor = &records[slot];
        actor->self = pid(slot).id;
        actor->kind = &kind;
        actor->host = &host;
        actor->live_state = true;
        atomic_init(&actor->limit, 16);
        atomic_init(&tasks[slot - 1].state, WEFT__TASK_RUNNING);
        atomic_init(&actor->admission, (uint64_t)weft__pid_generation(pid(slot))
                                           << WEFT__ADMISSION_SHIFT);
    }
    x_name(records, sizeof records, "records");
    x_name(weft__pending_buckets, sizeof weft__pending_buckets, "buckets");
}

/* What the command handler for a step's call does. */
static int step_calls(int64_t deadline)
{
    struct weft__pending_entry *entry = weft__pending_entry_new_call(pid(CALLER), pid(CALLEE), TAG);
    int err = weft__pending_add(entry, deadline, 0, &ref);
    if (err) {
        weft__pending_entry_free(entry);
        return err;
    }
    struct weft__envelope *envelope = weft__envelope_new(WEFT_EVENT_CALL, ref, NULL);
    err = weft__envelope_send(pid(CALLEE), envelope, WEFT_BY_POLICY);
    if (err) {
        weft__envelope_free(envelope);
    }
    return err && weft__pending_drop(ref, 1u << WEFT__PENDING_CALL) ? err : 0;
}

/* Its step has seen the call, and not replied. */
static void callee_sees(void)
{
    struct weft__link *link = weft__inbox_drain_local(&records[CALLEE].user);
    X_ASSERT(link && !link->next);
    if (weft__pending_has(ref)) {
        weft__pending_mark_seen(ref);
    }
    weft__envelope_free((struct weft__envelope *)(void *)link);
}

static void setup_called(void)
{
    setup();
    X_ASSERT(step_calls(WEFT_FOREVER) == 0);
}

static void setup_seen(void)
{
    setup_called();
    callee_sees();
}

static void setup_timed(void)
{
    setup();
    X_ASSERT(step_calls(LATER) == 0);
}

static void ends(unsigned slot)
{
    weft__actor_end(&records[slot], &(struct weft__end){.error = -EIO});
}

static void replies(void)
{
    replied = weft_actor_reply(ref, 0, NULL);
    X_ASSERT(replied == 0 || replied == -ESRCH);
}

/* How often the caller was notified, and with what. */
static int heard(int *error)
{
    struct weft__link *link = weft__inbox_drain_local(&records[CALLER].system);
    int count = 0;
    while (link) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)link;
        link = link->next;
        X_ASSERT(envelope->kind == WEFT_EVENT_COMPLETE && envelope->tag == TAG);
        *error = envelope->error;
        weft__envelope_free(envelope);
        count++;
    }
    return count;
}

/* Nothing is left, except that the call may be in the mailbox of an actor that is alive. */
static void rest(void)
{
    weft__envelopes_discard(weft__inbox_drain_local(&records[CALLEE].user), CALLEE);
    weft__small_flush(&workers[0].small);
    for (unsigned i = 0; i < WEFT__PENDING_BUCKETS; i++) {
        X_ASSERT(!weft__pending_buckets[i].first && !weft__pending_buckets[i].calls);
    }
    for (unsigned slot = 1; slot <= ACTORS; slot++) { /* an index that is not empty fails here */
        weft__pending_end_actor(pid(slot));
    }
    weft__pending_reset(true);
}

/* Exactly once: with the reply if the reply found its call, otherwise with the end or the
 * deadline. */
static void heard_once(bool timed)
{
    int error = 1;
    X_ASSERT(heard(&error) == 1);
    X_ASSERT(error == 0 || error == -EOWNERDEAD || (timed && error == -ETIMEDOUT));
    X_ASSERT((error == 0) == (replied == 0));
    rest();
}

static void once(void)
{
    heard_once(false);
}

static void once_in_time(void)
{
    heard_once(true);
}

static void by_the_end(void)
{
    replied = -ESRCH;
    heard_once(false);
}

static void nobody_heard(void)
{
    rest();
}

/* Two calls in one list: each is settled while the other is being settled. */
static uint64_t refs[2];

static void setup_two(void)
{
    setup();
    for (int i = 0; i < 2; i++) {
        X_ASSERT(step_calls(WEFT_FOREVER) == 0);
        refs[i] = ref;
    }
}

static void reply_against_reply(int i)
{
    if (i < 2) {
        weft_actor_reply(refs[i], 0, NULL);
    } else {
        ends(CALLEE);
    }
}

static void both(void)
{
    int error = 1;
    X_ASSERT(heard(&error) == 2);
    rest();
}

/* --- calls of a step -------------------------------------------------------------------------- */

static void reply_against_exit(int i)
{
    i == 0 ? ends(CALLEE) : replies();
}

static void reply_against_both_exits(int i)
{
    i == 0 ? ends(CALLEE) : i == 1 ? replies() : ends(CALLER);
}

static void deadline_against_exit(int i)
{
    i == 0 ? ends(CALLEE) : i == 1 ? time_passes() : replies();
}

static void deadline_against_caller(int i)
{
    i == 0 ? ends(CALLEE) : i == 1 ? time_passes() : ends(CALLER);
}

/* The call is made while the called actor ends. */
static void call_against_exit(int i)
{
    if (i == 0) {
        ends(CALLEE);
    } else {
        result = step_calls(WEFT_FOREVER);
        X_ASSERT(result == 0 || result == -ESRCH);
    }
}

static void refused_or_ended(void)
{
    int error = 1;
    X_ASSERT(heard(&error) == (result == 0));
    X_ASSERT(result != 0 || error == -EOWNERDEAD);
    rest();
}

/* --- transferred calls ------------------------------------------------------------------------ */

static void transfer_against_exits(int i)
{
    if (i == 0) {
        ends(CALLEE);
    } else if (i == 1) {
        result = weft_actor_call_transfer(ref, pid(SECOND));
        X_ASSERT(result == 0 || result == -ESRCH || result == -EOWNERDEAD);
    } else {
        ends(SECOND);
    }
}

/* The actor that has the call is alive: only that actor settles it. */
static void transfer_against_exit(int i)
{
    if (i == 0) {
        ends(CALLEE);
    } else if (weft_actor_call_transfer(ref, pid(SECOND)) == 0) {
        replies();
        X_ASSERT(replied == 0);
    }
}

static void transfer_against_reply(int i)
{
    if (i == 0) {
        result = weft_actor_call_transfer(ref, pid(SECOND));
        X_ASSERT(result == 0 || result == -ESRCH);
        ends(SECOND);
    } else {
        replies();
    }
}

static void once_or_with_the_callee(void)
{
    ends(CALLEE);
    heard_once(false);
}

/* --- upgrade ---------------------------------------------------------------------------------- */

static void upgrade_against_reply(int i)
{
    if (i == 0) {
        callee_sees();
        weft__pending_upgrade_begin(pid(CALLEE));
        weft__pending_upgrade_end(pid(CALLEE));
    } else {
        replies();
    }
}

/* The old code has not seen the call that arrives now: the call stays. */
static void upgrade_against_call(int i)
{
    if (i == 0) {
        weft__pending_upgrade_begin(pid(CALLEE));
        weft__pending_upgrade_end(pid(CALLEE));
    } else {
        X_ASSERT(step_calls(WEFT_FOREVER) == 0);
    }
}

static void still_there(void)
{
    replies();
    X_ASSERT(replied == 0);
    heard_once(false);
}

/* The slots of its bucket are replaced by larger ones while the called actor reads them. */
static void setup_full(void)
{
    setup();
    for (int i = 0; i < 8; i++) {
        X_ASSERT(step_calls(WEFT_FOREVER) == 0);
    }
    weft__envelopes_discard(weft__inbox_drain_local(&records[CALLEE].user), CALLEE);
}

static void receive_against_growth(int i)
{
    if (i == 0) {
        uint64_t call;
        while (!(call = atomic_load_explicit(&told_ref, memory_order_acquire))) {
            x_spin();
        }
        X_ASSERT(weft__pending_has(call)); /* no actor replies to it */
        weft__pending_mark_seen(call);
    } else {
        X_ASSERT(step_calls(WEFT_FOREVER) == 0);
        atomic_store_explicit(&told_ref, ref, memory_order_release);
    }
}

static void nine(void)
{
    int error = 1;
    weft__pending_upgrade_end(pid(CALLEE));
    X_ASSERT(heard(&error) == 1 && error == -EOWNERDEAD);
    ends(CALLEE);
    X_ASSERT(heard(&error) == 8);
    rest();
}

/* --- calls of a fiber ------------------------------------------------------------------------- */

static void waits(int64_t deadline)
{
    result = weft_actor_call(pid(CALLEE), NULL, "x", NULL, deadline);
}

static void wait_against_exit(int i)
{
    i == 0 ? waits(WEFT_FOREVER) : ends(CALLEE);
}

static void wait_against_deadline(int i)
{
    i == 0 ? waits(LATER) : i == 1 ? ends(CALLEE) : fibers_expire(0);
}

static void ended_wait(void)
{
    fibers_rest();
    X_ASSERT(result == -ESRCH || result == -EOWNERDEAD || result == -ETIMEDOUT);
    rest();
}

/* The called actor transfers the reference, if the call has arrived, and ends. */
static void wait_against_reply(int i)
{
    if (i == 0) {
        waits(WEFT_FOREVER);
    } else if (i == 1) {
        struct weft__link *link = weft__inbox_drain_local(&records[CALLEE].user);
        if (link) {
            struct weft__envelope *envelope = (struct weft__envelope *)(void *)link;
            atomic_store_explicit(&told_ref, envelope->tag, memory_order_release);
            weft__envelope_free(envelope);
        }
        ends(CALLEE);
    } else {
        ref = atomic_load_explicit(&told_ref, memory_order_acquire);
        replied = ref ? weft_actor_reply(ref, 0, NULL) : -ESRCH;
    }
}

static void wait_against_transfer(int i)
{
    if (i == 2) {
        ref = atomic_load_explicit(&told_ref, memory_order_acquire);
        if (ref && weft_actor_call_transfer(ref, pid(SECOND)) == 0) {
            ends(SECOND);
        }
        replied = -ESRCH;
    } else {
        wait_against_reply(i);
    }
}

/* The second actor has ended, and the first ends while the call is between the two. */
static void setup_one(void)
{
    setup();
    ends(SECOND);
}

static void wait_against_loss(int i)
{
    if (i == 2) {
        ref = atomic_load_explicit(&told_ref, memory_order_acquire);
        X_ASSERT(!ref || weft_actor_call_transfer(ref, pid(SECOND)) != 0);
        replied = -ESRCH;
    } else {
        wait_against_reply(i);
    }
}

static void answered_or_ended(void)
{
    fibers_rest();
    X_ASSERT(result == 0 || result == -ESRCH || result == -EOWNERDEAD);
    X_ASSERT((result == 0) == (replied == 0));
    rest();
}

static const struct x_client clients[] = {
    X_CLIENT("reply_against_exit", 2, setup_called, reply_against_exit, once, .preemptions = 3,
             .stale = 1),
    X_CLIENT("reply_against_reply", 3, setup_two, reply_against_reply, both, .preemptions = 2,
             .stale = 1),
    X_CLIENT("reply_against_both_exits", 3, setup_called, reply_against_both_exits, nobody_heard,
             .preemptions = 1, .stale = 1),
    X_CLIENT("deadline_against_exit", 3, setup_timed, deadline_against_exit, once_in_time,
             .preemptions = 2, .stale = 1),
    X_CLIENT("deadline_against_caller", 3, setup_timed, deadline_against_caller, nobody_heard,
             .preemptions = 1, .stale = 1),
    X_CLIENT("call_against_exit", 2, setup, call_against_exit, refused_or_ended, .preemptions = 2,
             .stale = 1),
    X_CLIENT("transfer_against_exits", 3, setup_seen, transfer_against_exits, by_the_end,
             .preemptions = 2, .stale = 1),
    X_CLIENT("transfer_against_exit", 2, setup_seen, transfer_against_exit, once, .preemptions = 3,
             .stale = 1),
    X_CLIENT("transfer_against_reply", 2, setup_seen, transfer_against_reply,
             once_or_with_the_callee, .preemptions = 3, .stale = 1),
    X_CLIENT("upgrade_against_reply", 2, setup_called, upgrade_against_reply, once,
             .preemptions = 3, .stale = 1),
    X_CLIENT("upgrade_against_call", 2, setup, upgrade_against_call, still_there, .preemptions = 3,
             .stale = 1),
    X_CLIENT("receive_against_growth", 2, setup_full, receive_against_growth, nine,
             .preemptions = 2, .stale = 1),
    X_CLIENT("wait_against_exit", 2, setup, wait_against_exit, ended_wait, .preemptions = 2,
             .stale = 1),
    X_CLIENT("wait_against_deadline", 3, setup, wait_against_deadline, ended_wait, .preemptions = 1,
             .stale = 1),
    X_CLIENT("wait_against_reply", 3, setup, wait_against_reply, answered_or_ended,
             .preemptions = 2, .stale = 1),
    X_CLIENT("wait_against_loss", 3, setup_one, wait_against_loss, answered_or_ended,
             .preemptions = 2, .stale = 1),
    X_CLIENT("wait_against_transfer", 3, setup, wait_against_transfer, answered_or_ended,
             .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
