/* Clients of src/actor: an actor that sleeps, ends, and is followed by another in its slot, against those who send, complete, kill
 * and wait for room. Thread 0 is the worker that runs it, the others are plain threads. */
#define FIBERS 1
#include <errno.h>

#include <weft/names.h>

#include "actor/fiber.h"
#include "actor/gate.h"
#include "actor/ledger.h"
#include "actor/mailbox.h"
#include "actor/parcel.h"
#include "actor/route.h"
#include "actor/tie.h"
#include "actor/trace.h"
#include "model/fibers.h"

enum { BURIED = 1, SEEN, ENDED };

static weft_actor record;
static weft_host host;
static weft_pid pid;

/* --- what is around an actor ---------------------------------------------------------------- */

struct weft__task *weft__body_make(weft_pool *pool, const struct weft__body_kind *kind, void *own,
                                   const struct weft__body_opts *opts, int *err)
{
    (void)pool, (void)opts;
    struct weft__task *task = &tasks[0];
    task->body = kind;
    task->own = own;
    task->flags = WEFT__TASK_BODY;
    task->deadline = NULL;
    weft__task_create_fresh(task);
    *err = 0;
    return task;
}

void weft__body_start(struct weft__task *task, weft_fiber *out, bool joinable)
{
    (void)out, (void)joinable;
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    atomic_store_explicit(&task->ident, ident | WEFT__IDENT_LIVE, memory_order_release);
}

void weft__body_unmake(struct weft__task *task)
{
    (void)task;
    x_fail("an actor was taken back");
}

void weft__body_end(struct weft__worker *w, struct weft__task *task, void *value, int status)
{
    (void)w, (void)value, (void)status;
    weft__task_finish(task);
    weft__task_free(task);
    weft__ident_retire(task);
    x_count(ENDED);
}

enum weft__reason weft__body_waited_any(struct weft__worker *w, struct weft__task *task)
{
    (void)w, (void)task;
    x_fail("a wait that was not parked, or a deadline");
}

weft_actor *weft__actor_find(uint32_t slot)
{
    return slot == 1 ? &record : NULL;
}

weft_actor *weft__actor_at(uint32_t slot)
{
    return weft__actor_find(slot);
}

weft_actor *weft__actor_of(weft_pid who)
{
    uint64_t gate = atomic_load_explicit(&record.gate, memory_order_acquire);
    return weft__gate_generation(gate) == weft__pid_generation(who) ? &record : NULL;
}

void weft__letter_bury(struct weft__letter *letter, uint32_t slot)
{
    (void)slot;
    x_count(BURIED);
    weft__letter_free(letter);
}

void weft__letters_bury(struct weft__link *letters, uint32_t slot)
{
    while (letters) {
        struct weft__link *next = letters->next;
        weft__letter_bury((struct weft__letter *)(void *)letters, slot);
        letters = next;
    }
}

/* What only the maker, the worker and a dump look at (sched/body.h): no step of the exploration. */
void __tsan_atomic64_store(volatile void *at, uint64_t value, int order);
void __tsan_atomic64_store(volatile void *at, uint64_t value, int order)
{
    (void)order;
    *(volatile uint64_t *)at = value;
}
uint64_t __tsan_atomic64_load(const volatile void *at, int order);
uint64_t __tsan_atomic64_load(const volatile void *at, int order)
{
    (void)order;
    return *(const volatile uint64_t *)at;
}

/* It is no fiber, has no state, and is of the only node. */
_Atomic(uint32_t) weft__this_node;
_Atomic(bool) weft__actor_tracing;

struct weft__task *weft__actor_task_make(weft_host *where, const struct weft_actor_kind *kind,
                                         int *err)
{
    return weft__body_make(where->pool, &weft__actor_body, NULL,
                           &(struct weft__body_opts){.name = kind->name}, err);
}
void weft__actor_task_start(struct weft__task *task, weft_actor *actor)
{
    (void)actor;
    weft__body_start(task, NULL, false);
}
void weft__actor_task_unmake(struct weft__task *task)
{
    weft__body_unmake(task);
}
bool weft__actor_state_make(weft_actor *actor, const struct weft_actor_kind *kind)
{
    (void)kind;
    actor->state = NULL;
    return true;
}
void weft__actor_state_free(weft_actor *actor, const struct weft_actor_kind *kind)
{
    (void)actor, (void)kind;
}
weft_actor *weft__actor_of_fiber(const struct weft__task *task)
{
    (void)task;
    return NULL;
}
weft_actor *weft_actor_self(void)
{
    return NULL;
}

/* None of these is used here. */
void weft__actor_break(weft_pid who, bool always)
{
    (void)who, (void)always;
}
int weft__route_letter(weft_pid to, struct weft__letter *letter)
{
    (void)to, (void)letter;
    x_fail("a letter went to another node");
    return 0;
}
uint32_t weft__trace_new(void)
{
    return 0;
}
void weft__trace_tell(enum weft_passage_kind kind, weft_pid to, const struct weft__letter *letter)
{
    (void)kind, (void)to, (void)letter;
}
size_t weft__hooks_start(weft_actor *actor, int *err)
{
    (void)actor;
    *err = 0;
    return 0;
}
void weft__hooks_end(weft_actor *actor, size_t agreed, int reason)
{
    (void)actor, (void)agreed, (void)reason;
}
void weft__ties_cut(weft_actor *actor, struct weft__end *end)
{
    (void)end;
    X_ASSERT(!actor->ties);
}
void weft__actor_tell_stats(weft_actor *actor, struct weft__letter *letter)
{
    (void)actor, (void)letter;
    x_fail("nobody has asked");
}
void weft__ledger_end(weft_pid self)
{
    (void)self;
    x_fail("an actor of nothing to come has something to come");
}
bool weft__ledger_queues(weft_pid from, weft_pid to)
{
    (void)from, (void)to;
    x_fail("an actor that sends nothing has a pass");
    return false;
}
void weft__pair_lock(weft_pid a, weft_pid b)
{
    (void)a, (void)b;
}
void weft__pair_unlock(weft_pid a, weft_pid b)
{
    (void)a, (void)b;
}
struct weft__bond *weft__bond_new(weft_pid a, weft_pid b, uint64_t ref)
{
    (void)a, (void)b, (void)ref;
    return NULL;
}
void weft__bond_free(struct weft__bond *bond)
{
    (void)bond;
}
void weft__bond_tie(struct weft__bond *bond)
{
    (void)bond;
}
uint64_t weft__monitor_ref(weft_pid watched)
{
    (void)watched;
    return 1;
}
struct weft__name *weft__name_new(weft_host *where, const char *text, weft_pid who, int *err)
{
    (void)where, (void)text, (void)who, (void)err;
    return NULL;
}
void weft__name_free(struct weft__name *name)
{
    (void)name;
}
int weft__name_show_locked(weft_actor *actor, struct weft__name *name, uint64_t gate)
{
    (void)name;
    atomic_store_explicit(&actor->gate, gate, memory_order_release);
    return 0;
}
int weft_actor_whereis(weft_host *where, const char *text, weft_pid *out)
{
    (void)where, (void)text, (void)out;
    return -ENOENT;
}
void weft__host_cancel(weft_host *where, weft_pid who)
{
    (void)where, (void)who;
}
struct weft__will *weft__will_new(weft_buf *text)
{
    (void)text;
    return NULL;
}
struct weft__will *weft__will_ref(struct weft__will *will)
{
    return will;
}
void weft__will_unref(struct weft__will *will)
{
    (void)will;
}
void weft__new_code_free(struct weft__new_code *code)
{
    (void)code;
}
void weft__actor_upgrade(weft_actor *actor, weft_out *out)
{
    (void)actor, (void)out;
}
void weft__out_drop(weft_out *out)
{
    (void)out;
}
void weft_buf_free(weft_buf *buf)
{
    X_ASSERT(!buf);
}
weft_buf *weft_buf_copy(const void *bytes, size_t len)
{
    (void)bytes, (void)len;
    return NULL;
}
enum weft_fiber_state weft__fiber_state_of(enum weft__task_state state)
{
    (void)state;
    return WEFT_FIBER_RUNNING;
}
int64_t weft_now(void)
{
    return TWIN_NOW;
}

/* --- the actor -------------------------------------------------------------------------------- */

static int messages, completions, want, order[3];
static bool second;             /* incarnation */
static bool asks;               /* a command, in its first step */
static _Atomic(uint32_t) asked; /* it has */

int weft__out_dispatch(weft_out *out, weft_actor *actor)
{
    (void)out, (void)actor;
    if (!asks) {
        return 0;
    }
    asks = false;
    atomic_store_explicit(&asked, 1, memory_order_release);
    weft__futex_wake(&asked, 1);
    return 1;
}

static struct weft_actor_kind kind;

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    out->count = asks;
    bool first = asks;
    for (size_t i = 0; i < n; i++) {
        x_count(SEEN);
        if (events[i].kind == WEFT_EVENT_COMPLETE) {
            completions++;
            continue;
        }
        int who = (int)(events[i].tag / 10);
        bool drops = kind.policy == WEFT_MAILBOX_DROP;
        X_ASSERT(drops || events[i].tag % 10 == (uint64_t)order[who]); /* in order from each */
        order[who]++;
        messages++;
    }
    if (kind.policy == WEFT_MAILBOX_WAIT) {
        X_ASSERT(weft__gate_count(atomic_load_explicit(&record.gate, memory_order_relaxed)) <=
                 kind.mailbox);
    }
    if (second && messages > 0) { /* only its own has passed its gate */
        X_ASSERT((uint32_t)atomic_load_explicit(&record.gate, memory_order_relaxed) == 0);
    }
    if (first) {
        weft_out_wait(out);
    } else if (messages + completions >= want) {
        weft_out_done(out, NULL);
    } else {
        weft_out_idle(out);
    }
    return 0;
}

static void setup_with(int count, enum weft_mailbox_policy policy, unsigned room)
{
    kind = (struct weft_actor_kind){
        .name = "model", .step = step, .policy = policy, .mailbox = room, .batch = room};
    fibers_setup();
    workers[0].current = NULL;
    workers[0].body = &tasks[0];
    memset(&workers[0].small, 0, sizeof workers[0].small);
    atomic_init(&tasks[0].state, WEFT__TASK_FREE);
    atomic_init(&tasks[0].ident, (uint64_t)GENERATION << 32);
    weft__gate_reset();
    memset(&record, 0, sizeof record);
    memset(&host, 0, sizeof host);
    host.number = 1;
    host.mailbox = 4;
    host.batch = 4;
    host.turn_events = 64;
    host.turn_ns = INT64_MAX / 2;
    host.max_actors = 2;
    want = count;
    messages = completions = 0;
    order[0] = order[1] = order[2] = 0;
    asks = second = false;
    atomic_init(&asked, 0);
    X_ASSERT(weft_actor_spawn(&host, &pid, &kind, NULL, NULL) == 0);
    x_name(&record, sizeof record, "record");
    x_name(&host, sizeof host, "host");
}

static void setup_for(int count)
{
    setup_with(count, WEFT_MAILBOX_REFUSE, 4);
}

/* As the worker does, until the actor has ended. */
static void serve(void)
{
    struct weft__task *task = &tasks[0];
    for (;;) {
        weft__task_run(task);
        enum weft__body_step how = weft__actor_body.step(&workers[0], task);
        if (how == WEFT__BODY_END) {
            return;
        }
        if (how == WEFT__BODY_YIELD) {
            weft__task_requeue(task);
        } else {
            X_ASSERT(how == WEFT__BODY_GONE);
            while (atomic_load_explicit(&placed[0], memory_order_acquire) == 0) {
                weft__futex_wait(&placed[0], 0, INT64_MAX);
            }
            atomic_store_explicit(&placed[0], 0, memory_order_relaxed);
        }
    }
}

/* It has ended, and nothing is left in its inboxes; whatever was taken at the gate was seen or buried, once. */
static void rest(int ended)
{
    weft__small_flush(&workers[0].small); /* letters that it keeps for later */
    X_ASSERT(x_counted(ENDED) == ended);
    X_ASSERT(weft__task_state(&tasks[0]) == WEFT__TASK_FREE);
    X_ASSERT(placed[0] == 0);
    X_ASSERT(weft__inbox_empty(&record.user) && weft__inbox_empty(&record.system));
    X_ASSERT(!record.kept && !record.urgent && !record.there);
}

/* --- a message against sleep -------------------------------------------------------------------- */

static void setup_one(void)
{
    setup_for(1);
}

static void send_against_sleep(int i)
{
    if (i == 0) {
        serve();
    } else {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL) == 0);
    }
}

static void one_came(void)
{
    rest(1);
    X_ASSERT(messages == 1 && x_counted(BURIED) == 0);
}

static void setup_four(void)
{
    setup_for(4);
}

/* Two from each of two, in order. */
static void two_send(int i)
{
    if (i == 0) {
        serve();
    } else {
        for (uint64_t k = 0; k < 2; k++) {
            X_ASSERT(weft_actor_send(pid, "x", (uint64_t)(i - 1) * 10 + k, NULL) == 0);
        }
    }
}

static void four_came(void)
{
    rest(1);
    X_ASSERT(messages == 4 && x_counted(BURIED) == 0);
}

/* --- a completion against a wait for it ----------------------------------------------------------- */

static void setup_asking(void)
{
    setup_for(2);
    asks = true;
}

static void complete_against_wait(int i)
{
    if (i == 0) {
        serve();
    } else if (i == 1) {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL) == 0);
    } else {
        while (atomic_load_explicit(&asked, memory_order_acquire) == 0) {
            weft__futex_wait(&asked, 0, INT64_MAX);
        }
        X_ASSERT(weft_complete(pid, 0, 0, NULL) == 0);
    }
}

static void both_came(void)
{
    rest(1);
    X_ASSERT(messages == 1 && completions == 1 && x_counted(BURIED) == 0);
}

/* --- messages against the end ------------------------------------------------------------------------ */

static void setup_none(void)
{
    setup_for(0);
}

static _Atomic(int) taken;

static void setup_ending(void)
{
    setup_none();
    atomic_init(&taken, 0);
}

static void sends_to(weft_pid to, uint64_t tag)
{
    int err = weft_actor_send(to, "x", tag, NULL);
    X_ASSERT(err == 0 || err == -ESRCH);
    atomic_fetch_add_explicit(&taken, err == 0, memory_order_relaxed);
}

static void send_against_end(int i)
{
    if (i == 0) {
        serve();
    } else {
        sends_to(pid, (uint64_t)(i - 1) * 10);
    }
}

/* One that was refused was buried by the call. */
static void none_lost(void)
{
    rest(1);
    X_ASSERT(x_counted(SEEN) + x_counted(BURIED) == 2);
    X_ASSERT(x_counted(SEEN) <= taken);
}

static void kill_against_end(int i)
{
    if (i == 0) {
        serve();
    } else {
        int err = weft_actor_kill(pid);
        X_ASSERT(err == 0 || err == -ESRCH);
    }
}

static void killed(void)
{
    rest(1);
}

/* --- and against the next one --------------------------------------------------------------------------- */

/* The next one has a message of its own to wait for. */
static void serve_two(uint64_t tag)
{
    static weft_pid next;
    serve();
    want = 1;
    second = true;
    messages = 0;
    order[0] = order[1] = order[2] = 0;
    X_ASSERT(weft_actor_spawn(&host, &next, &kind, NULL, NULL) == 0);
    X_ASSERT(weft_actor_send(next, "own", tag, NULL) == 0);
    serve();
    X_ASSERT(messages == 1);
}

static void send_against_reuse(int i)
{
    if (i == 0) {
        serve_two(0);
    } else {
        sends_to(pid, 10);
    }
}

static void none_crossed(void)
{
    rest(2);
    X_ASSERT(x_counted(SEEN) + x_counted(BURIED) == 2);
}

/* --- a mailbox that is full --------------------------------------------------------------------------------- */

static void setup_full(int count, enum weft_mailbox_policy policy)
{
    setup_with(count, policy, 1);
    atomic_init(&taken, 0);
}

static void setup_waiting(void)
{
    setup_full(3, WEFT_MAILBOX_WAIT);
}

/* Room for one: each waits for the other, and the first for itself. */
static void three_through_one(int i)
{
    if (i == 0) {
        serve();
        return;
    }
    for (uint64_t k = 0; k < (i == 1 ? 2 : 1); k++) {
        X_ASSERT(weft_actor_send_until(pid, "x", (uint64_t)(i - 1) * 10 + k, NULL, WEFT_FOREVER) ==
                 0);
    }
}

static void three_came(void)
{
    rest(1);
    X_ASSERT(messages == 3 && x_counted(BURIED) == 0);
}

static void setup_leaving(void)
{
    setup_full(1, WEFT_MAILBOX_WAIT);
}

/* It ends after the first, while two may wait for room: one gets the first's, the other is told. */
static void room_against_end(int i)
{
    if (i == 0) {
        serve();
        return;
    }
    for (uint64_t k = 0; k < (i == 1 ? 2 : 1); k++) {
        int err = weft_actor_send_until(pid, "x", (uint64_t)(i - 1) * 10 + k, NULL, WEFT_FOREVER);
        X_ASSERT(err == 0 || err == -ESRCH);
    }
}

static void each_seen_or_buried(void)
{
    rest(1);
    X_ASSERT(messages >= 1 && x_counted(SEEN) + x_counted(BURIED) == 3);
}

/* --- steps that wait for room: threads that do what their actors would ---------------------------------------- */

enum { WAITS = 1, LET_IN = 2, HAS_PASS = 4, TOLD = 8 };

static struct {
    struct weft__parcel parcel;
    _Atomic(uint32_t) how;
} steps[3];

void weft__parcel_settle(struct weft__parcel *parcel, int error)
{
    int i = 1;
    while (&steps[i].parcel != parcel) {
        i++;
    }
    X_ASSERT(error == 0 || error == -ESRCH);
    uint32_t how = error ? TOLD : LET_IN | (parcel->sender.pass ? HAS_PASS : 0);
    X_ASSERT(atomic_exchange_explicit(&steps[i].how, how, memory_order_acq_rel) == WAITS);
    weft__futex_wake(&steps[i].how, 1);
}

static struct weft__letter *letter_of(int i, uint64_t k)
{
    struct weft__letter *letter =
        weft__letter_new(WEFT_EVENT_MESSAGE, (uint64_t)(i - 1) * 10 + k, NULL);
    letter->topic = "x";
    return letter;
}

/* 0: there was a place at once, or nobody is there. */
static uint32_t asks_for_room(int i, struct weft__letter *letter)
{
    struct weft__sender *sender = &steps[i].parcel.sender;
    *sender = (struct weft__sender){.to = pid, .letter = letter};
    atomic_store_explicit(&steps[i].how, WAITS, memory_order_relaxed);
    int place = weft__letter_enter(pid, WEFT__AT_ONCE);
    if (place == -ENOBUFS) {
        place = weft__gate_queue(sender);
    }
    if (place == WEFT__GATE_WAITS) {
        return WAITS;
    }
    if (place < 0) {
        X_ASSERT(place == -ESRCH);
        weft__letter_bury(letter, 1);
    } else {
        weft__letter_put(pid, letter, place);
    }
    return 0;
}

static uint32_t hears(int i)
{
    while (atomic_load_explicit(&steps[i].how, memory_order_acquire) == WAITS) {
        weft__futex_wait(&steps[i].how, WAITS, INT64_MAX);
    }
    return atomic_load_explicit(&steps[i].how, memory_order_acquire);
}

/* Its next message, in the step that has the completion. False: there is no place for it. */
static bool sends_on(int i, uint64_t k)
{
    int place = weft__gate_pass(&record, pid);
    if (place == -ENOBUFS) {
        return false;
    }
    if (place == -ESRCH) {
        weft__letter_bury(letter_of(i, k), 1);
    } else {
        weft__letter_put(pid, letter_of(i, k), place);
    }
    return true;
}

/* So many messages, each when it may. */
static void step_sends(int i, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++) {
        uint32_t how = asks_for_room(i, letter_of(i, k)) ? hears(i) : 0;
        if (how & HAS_PASS) {
            weft__gate_pass_begin(pid);
            k += k + 1 < count && sends_on(i, k + 1);
            weft__gate_pass_end(pid);
        }
    }
}

static void steps_through_one(int i)
{
    if (i == 0) {
        serve();
    } else {
        step_sends(i, i == 1 ? 2 : 1);
    }
}

static void steps_against_end(int i)
{
    steps_through_one(i);
}

/* One has died before it could use its pass. */
static void pass_against_room(int i)
{
    if (i == 0) {
        serve();
    } else if (i == 1) {
        if (asks_for_room(i, letter_of(i, 0)) && hears(i) & HAS_PASS) {
            weft__gate_pass_drop(pid);
        }
        step_sends(2, 1);
    } else {
        X_ASSERT(weft_actor_send_until(pid, "x", 20, NULL, WEFT_FOREVER) == 0);
    }
}

/* One does not want to wait any more. */
static void leaving_against_room(int i)
{
    if (i == 0) {
        serve();
    } else if (i == 2) {
        step_sends(i, 2);
    } else if (asks_for_room(i, letter_of(i, 0))) {
        if (weft__gate_unqueue(&steps[i].parcel.sender)) {
            weft__letter_free(steps[i].parcel.sender.letter);
            X_ASSERT(weft_actor_send_until(pid, "x", 0, NULL, WEFT_FOREVER) == 0);
        } else if (hears(i) & HAS_PASS) {
            weft__gate_pass_drop(pid);
        }
    }
}

static _Atomic(uint32_t) through;

static void setup_blocking(void)
{
    setup_with(2, WEFT_MAILBOX_WAIT, 2);
    atomic_init(&through, 0);
    for (int i = 0; i < 2; i++) {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL) == 0);
    }
}

/* It takes what is there, and nothing more until both have a place: each has the room that the other leaves. */
static void pass_against_block(int i)
{
    struct weft__letter *taken_out[2];
    if (i > 0) {
        step_sends(i, 1);
        atomic_fetch_add_explicit(&through, 1, memory_order_release);
        weft__futex_wake(&through, 1);
        return;
    }
    size_t n = weft__mailbox_take(&record, taken_out, 2);
    X_ASSERT(n == 2);
    weft__letter_free(taken_out[0]);
    weft__letter_free(taken_out[1]);
    weft__gate_yield(&record);
    uint32_t seen;
    while ((seen = atomic_load_explicit(&through, memory_order_acquire)) < 2) {
        weft__futex_wait(&through, seen, INT64_MAX);
    }
    serve();
}

static void two_came(void)
{
    rest(1);
    X_ASSERT(messages == 2 && x_counted(BURIED) == 0);
}

/* What one still does with its pass is nothing to the next actor of the slot. */
static void pass_against_reuse(int i)
{
    if (i == 0) {
        serve_two(10);
    } else {
        step_sends(i, 2);
    }
}

static void two_and_one_seen_or_buried(void)
{
    rest(2);
    X_ASSERT(x_counted(SEEN) + x_counted(BURIED) == 3);
}

static void setup_dropping(void)
{
    setup_full(1, WEFT_MAILBOX_DROP);
}

/* What is dropped is dropped once; it ends by the first that it sees. */
static void drop_against_step(int i)
{
    if (i == 0) {
        serve();
    } else {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL) != -ENOBUFS);
        sends_to(pid, 1);
    }
}

static void none_twice(void)
{
    rest(1);
    X_ASSERT(messages >= 1 && x_counted(SEEN) + x_counted(BURIED) == 2);
}

static const struct x_client clients[] = {
    X_CLIENT("send_against_sleep", 2, setup_one, send_against_sleep, one_came, .preemptions = 3,
             .stale = 2),
    X_CLIENT("send_against_end", 3, setup_ending, send_against_end, none_lost, .preemptions = 2,
             .stale = 2),
    X_CLIENT("kill_against_end", 2, setup_none, kill_against_end, killed),
    X_CLIENT("send_against_reuse", 2, setup_ending, send_against_reuse, none_crossed,
             .preemptions = 3, .stale = 1),
    X_CLIENT("complete_against_wait", 3, setup_asking, complete_against_wait, both_came,
             .preemptions = 2, .stale = 2),
    X_CLIENT("two_send", 3, setup_four, two_send, four_came, .preemptions = 1, .stale = 1),
    X_CLIENT("three_through_one", 3, setup_waiting, three_through_one, three_came, .preemptions = 1,
             .stale = 1),
    X_CLIENT("room_against_end", 3, setup_leaving, room_against_end, each_seen_or_buried,
             .preemptions = 1, .stale = 1),
    X_CLIENT("steps_through_one", 3, setup_waiting, steps_through_one, three_came, .preemptions = 1,
             .stale = 1),
    X_CLIENT("steps_against_end", 3, setup_leaving, steps_against_end, each_seen_or_buried,
             .preemptions = 1, .stale = 1),
    X_CLIENT("pass_against_room", 3, setup_waiting, pass_against_room, three_came, .preemptions = 1,
             .stale = 1),
    X_CLIENT("leaving_against_room", 3, setup_waiting, leaving_against_room, three_came,
             .preemptions = 1, .stale = 1),
    X_CLIENT("pass_against_block", 3, setup_blocking, pass_against_block, two_came,
             .preemptions = 1, .stale = 1),
    X_CLIENT("pass_against_reuse", 2, setup_leaving, pass_against_reuse, two_and_one_seen_or_buried,
             .preemptions = 2, .stale = 1),
    X_CLIENT("drop_against_step", 2, setup_dropping, drop_against_step, none_twice,
             .preemptions = 3, .stale = 1),
};

X_MAIN(clients)
