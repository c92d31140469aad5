/* The actor of a client: its steps, the worker that runs it, which is thread 0, and the next actor
 * in its slot. A client includes this header once, calls setup_with in its setup and rest in its
 * check. */
#ifndef WEFT_TEST_MODEL_ACTOR_ONE_ACTOR_H
#define WEFT_TEST_MODEL_ACTOR_ONE_ACTOR_H

#define FIBERS 1
#include <weft/actor.h>

#include "mailbox/admission.h"
#include "model/actor/actors.h"

enum { SEEN = FIRST_COUNTER, ENDED };

static weft_actor record;
static weft_host host;
static weft_pid pid;

/* --- the environment of an actor ------------------------------------------------------------ */

struct weft__task *weft__stackless_make(weft_pool *pool, const struct weft__stackless_kind *kind,
                                        void *own, const struct weft__stackless_opts *opts,
                                        int *err)
{
    (void)pool, (void)opts;
    struct weft__task *task = &tasks[0];
    task->stackless = kind;
    task->own = own;
    task->flags = WEFT__TASK_STACKLESS;
    task->deadline = NULL;
    weft__task_create_fresh(task);
    *err = 0;
    return task;
}

void weft__stackless_start(struct weft__task *task, weft_fiber *out, bool joinable)
{
    (void)out, (void)joinable;
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    atomic_store_explicit(&task->ident, ident | WEFT__IDENT_LIVE, memory_order_release);
}

void weft__stackless_unmake(struct weft__task *task)
{
    (void)task;
    x_fail("an actor was taken back");
}

void weft__stackless_end(struct weft__worker *w, struct weft__task *task, void *value, int status)
{
    (void)w, (void)value, (void)status;
    weft__task_finish(task);
    weft__task_free(task);
    weft__ident_retire(task);
    x_count(ENDED);
}

enum weft__reason weft__stackless_wait_reason_any(struct weft__worker *w, struct weft__task *task)
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

/* Read only by the creator, the worker and a dump (sched/stackless.h): not a step of the
 * exploration. */
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

struct weft__task *weft__actor_task_make(weft_host *where, const struct weft_actor_kind *kind,
                                         int *err)
{
    return weft__stackless_make(where->pool, &weft__actor_body, NULL,
                                &(struct weft__stackless_opts){.name = kind->name}, err);
}
void weft__actor_task_start(struct weft__task *task, weft_actor *actor)
{
    (void)actor;
    weft__stackless_start(task, NULL, false);
}
void weft__actor_task_unmake(struct weft__task *task)
{
    weft__stackless_unmake(task);
}
bool weft__actor_state_alloc(weft_actor *actor, const struct weft_actor_kind *kind)
{
    (void)kind;
    actor->state = NULL;
    return true;
}
weft_actor *weft_actor_self(void)
{
    return NULL;
}

/* None of these is used here. */
size_t weft__hooks_start(weft_actor *actor, int *err)
{
    (void)actor;
    *err = 0;
    return 0;
}
void weft__relations_remove_all(weft_actor *actor, struct weft__end *end)
{
    (void)end;
    X_ASSERT(!actor->relations);
}
void weft__actor_reply_stats(weft_actor *actor, struct weft__envelope *envelope)
{
    (void)actor, (void)envelope;
    x_fail("nobody has asked");
}
struct weft__pending_bucket weft__pending_buckets[WEFT__PENDING_BUCKETS];
void weft__pending_mark_seen(uint64_t ref)
{
    (void)ref;
    x_fail("nobody calls");
}
bool weft__pending_has_send(weft_pid from, weft_pid to)
{
    (void)from, (void)to;
    x_fail("an actor that sends nothing has a pass");
    return false;
}
void weft__actor_pair_lock(weft_pid a, weft_pid b)
{
    (void)a, (void)b;
}
void weft__actor_pair_unlock(weft_pid a, weft_pid b)
{
    (void)a, (void)b;
}
struct weft__pair_relation *weft__pair_relation_new(weft_pid a, weft_pid b, uint64_t ref)
{
    (void)a, (void)b, (void)ref;
    return NULL;
}
void weft__pair_relation_free(struct weft__pair_relation *pair)
{
    (void)pair;
}
void weft__pair_relation_add(struct weft__pair_relation *pair)
{
    (void)pair;
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
int weft__name_publish_locked(weft_actor *actor, struct weft__name *name, uint64_t admission)
{
    (void)name;
    atomic_store_explicit(&actor->admission, admission, memory_order_release);
    return 0;
}
int weft_actor_whereis(weft_host *where, weft_pid *out, const char *text)
{
    (void)where, (void)text, (void)out;
    return -ENOENT;
}
void weft__host_cancel(weft_host *where, weft_pid who)
{
    (void)where, (void)who;
}
struct weft__exit_reason *weft__exit_reason_new(weft_buf *text)
{
    (void)text;
    return NULL;
}
struct weft__exit_reason *weft__exit_reason_ref(struct weft__exit_reason *exit_reason)
{
    return exit_reason;
}
void weft__exit_reason_unref(struct weft__exit_reason *exit_reason)
{
    (void)exit_reason;
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
static _Atomic(uint32_t) asked; /* the command was issued */
static _Atomic(int) taken;      /* messages of sends_to */

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
        bool drops = kind.policy == WEFT_MAILBOX_DROP_OLDEST;
        X_ASSERT(drops || events[i].tag % 10 == (uint64_t)order[who]); /* in order from each */
        order[who]++;
        messages++;
    }
    if (kind.policy == WEFT_MAILBOX_WAIT) {
        X_ASSERT(weft__admission_count(atomic_load_explicit(&record.admission,
                                                            memory_order_relaxed)) <= kind.mailbox);
    }
    if (second && messages > 0) { /* only its own message was admitted */
        X_ASSERT((uint32_t)atomic_load_explicit(&record.admission, memory_order_relaxed) == 0);
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
    workers[0].stackless = &tasks[0];
    memset(&workers[0].small, 0, sizeof workers[0].small);
    atomic_init(&tasks[0].state, WEFT__TASK_FREE);
    atomic_init(&tasks[0].ident, (uint64_t)GENERATION << 32);
    weft__admission_reset();
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
    atomic_init(&taken, 0);
    X_ASSERT(weft_actor_spawn(&host, &pid, &kind, NULL, NULL) == 0);
    x_name(&record, sizeof record, "record");
    x_name(&host, sizeof host, "host");
}

/* As the worker does, until the actor has ended. */
static void serve(void)
{
    struct weft__task *task = &tasks[0];
    for (;;) {
        weft__task_run(task);
        enum weft__stackless_step how = weft__actor_body.step(&workers[0], task);
        if (how == WEFT__STACKLESS_END) {
            return;
        }
        if (how == WEFT__STACKLESS_YIELD) {
            weft__task_requeue(task);
        } else {
            X_ASSERT(how == WEFT__STACKLESS_GONE);
            while (atomic_load_explicit(&placed[0], memory_order_acquire) == 0) {
                weft__futex_wait(&placed[0], 0, INT64_MAX);
            }
            atomic_store_explicit(&placed[0], 0, memory_order_relaxed);
        }
    }
}

/* The next actor waits for a message of its own. */
static void serve_two(uint64_t tag)
{
    static weft_pid next;
    serve();
    want = 1;
    second = true;
    messages = 0;
    order[0] = order[1] = order[2] = 0;
    X_ASSERT(weft_actor_spawn(&host, &next, &kind, NULL, NULL) == 0);
    X_ASSERT(weft_actor_send(next, "own", tag, NULL, WEFT_BY_POLICY) == 0);
    serve();
    X_ASSERT(messages == 1);
}

/* The actor has ended, and nothing is left in its inboxes; every admitted message was seen or
 * became a dead letter, once. */
static void rest(int ended)
{
    weft__small_flush(&workers[0].small); /* envelopes that it keeps for later */
    X_ASSERT(x_counted(ENDED) == ended);
    X_ASSERT(weft__task_state(&tasks[0]) == WEFT__TASK_FREE);
    X_ASSERT(placed[0] == 0);
    X_ASSERT(weft__inbox_is_empty(&record.user) && weft__inbox_is_empty(&record.system));
    X_ASSERT(!record.kept && !record.urgent && !record.live_state);
}

/* A message to an actor that may have ended. */
static void sends_to(weft_pid to, uint64_t tag)
{
    int err = weft_actor_send(to, "x", tag, NULL, WEFT_BY_POLICY);
    X_ASSERT(err == 0 || err == -ESRCH);
    atomic_fetch_add_explicit(&taken, err == 0, memory_order_relaxed);
}

#endif
