/* Actors: messages, starts, memory, steps. usage: actor WORKLOAD WORKERS */
#include "program.h"

#include <errno.h>

static const char *workers = "1";
static weft_host *host;
static uint64_t begun, ended;

static weft_pid start_one(const struct weft_actor_kind *kind)
{
    weft_pid pid;
    must(weft_actor_spawn(host, &pid, kind, NULL, NULL), "weft_actor_spawn");
    return pid;
}

static void tell(weft_pid to, uint64_t tag)
{
    must(weft_actor_send(to, "ball", tag, NULL, WEFT_BY_POLICY), "weft_actor_send");
}

static void join(weft_pid pid)
{
    must(weft_actor_join(pid, NULL, WEFT_FOREVER), "weft_actor_join");
}

static double seconds(void)
{
    return (double)(ended - begun) / 1e9;
}

/* --- pingpong: two actors send a number back and forth ---------------------------------- */

enum { BALLS = 1000000 };

static int return_balls(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        tell(events[i].from, events[i].tag);
    weft_out_idle(out);
    return 0;
}

static const struct weft_actor_kind returner = {.name = "returner", .step = return_balls};
static weft_pid opponent;

static int serve_balls(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].tag == BALLS) {
            ended = now_ns();
            weft_out_done(out, NULL);
        } else {
            tell(opponent, events[i].tag + 1);
        }
    }
    return 0;
}

static void pingpong(void)
{
    static const struct weft_actor_kind server = {.name = "server", .step = serve_balls};
    opponent = start_one(&returner);
    weft_pid first = start_one(&server);
    begun = now_ns();
    tell(first, 0);
    join(first);
    report("weft", "actor_pingpong", workers, 2 * BALLS / seconds() / 1e6, "Mmsg/s");
}

/* --- ring: one token goes round the actors ------------------------------------------------ */

enum { MEMBERS = 100000, LAPS = 20 };

static weft_pid ring[MEMBERS];

static int pass_on(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    const uint32_t *place = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].tag) {
            tell(ring[*place], events[i].tag - 1);
        } else {
            ended = now_ns();
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static int find_neighbour(weft_actor *self, const char *method, const weft_buf *input)
{
    static uint32_t next;
    *(uint32_t *)weft_actor_state(self) = ++next % MEMBERS;
    (void)method, (void)input;
    return 0;
}

static void go_round(void)
{
    static const struct weft_actor_kind member = {
        .name = "member", .state_bytes = sizeof(uint32_t), .init = find_neighbour, .step = pass_on};
    for (int i = 0; i < MEMBERS; i++)
        ring[i] = start_one(&member);
    begun = now_ns();
    tell(ring[0], (uint64_t)MEMBERS * LAPS);
    join(ring[0]);
    report("weft", "actor_ring", "", (double)MEMBERS * LAPS / seconds() / 1e6, "Mmsg/s");
}

/* --- fanin: many actors send to one ----------------------------------------------------------- */

enum { SENDERS = 1000, MESSAGES = 1000, ROOM = 1024 };

static weft_pid sink;

static int count_messages(weft_actor *self, const struct weft_actor_event *events, size_t n,
                          weft_out *out)
{
    uint64_t *counts = weft_actor_state(self);
    for (size_t i = 0; i < n; i++)
        counts[1] += events[i].tag;
    counts[0] += n;
    weft_out_idle(out);
    if (counts[0] == SENDERS * MESSAGES) {
        if (counts[1] != (uint64_t)SENDERS * MESSAGES * (MESSAGES + 1) / 2)
            abort();
        ended = now_ns();
        weft_out_done(out, NULL);
    }
    return 0;
}

/* A sender that finds the mailbox full waits for capacity. */
static int send_messages(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    uint64_t *sent = weft_actor_state(self);
    (void)events, (void)n;
    while (*sent < MESSAGES) {
        int err = weft_actor_send(sink, "message", ++*sent, NULL, WEFT_BY_POLICY);
        if (err == -ENOBUFS)
            return weft_out_send(out, 0, sink, "message", *sent, NULL, WEFT_BY_POLICY);
        must(err, "weft_actor_send");
    }
    weft_out_done(out, NULL);
    return 0;
}

static void fanin(void)
{
    static const struct weft_actor_kind reader = {.name = "reader",
                                                  .state_bytes = 2 * sizeof(uint64_t),
                                                  .mailbox = ROOM,
                                                  .policy = WEFT_MAILBOX_WAIT,
                                                  .step = count_messages},
                                        writer = {.name = "writer",
                                                  .state_bytes = sizeof(uint64_t),
                                                  .step = send_messages};
    sink = start_one(&reader);
    begun = now_ns();
    for (int i = 0; i < SENDERS; i++)
        start_one(&writer);
    join(sink);
    report("weft", "actor_fanin", "", (double)SENDERS * MESSAGES / seconds() / 1e6, "Mmsg/s");
}

/* --- spawn: start, one message, end ---------------------------------------------------------- */

enum { LIVES = 1000000, LITTER = 1000 };

static atomic_long alive;
static weft_pid mother;

static int live_once(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self, (void)events;
    weft_out_idle(out);
    if (n) {
        if (atomic_fetch_sub_explicit(&alive, 1, memory_order_acq_rel) == 1)
            tell(mother, 0);
        weft_out_done(out, NULL);
    }
    return 0;
}

static int bear(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    static const struct weft_actor_kind child = {.name = "child", .step = live_once};
    long *born = weft_actor_state(self);
    (void)events;
    weft_out_idle(out);
    if (*born == LIVES && n) {
        ended = now_ns();
        weft_out_done(out, NULL);
    } else if (*born == 0 || n) {
        atomic_store_explicit(&alive, LITTER, memory_order_relaxed);
        for (int i = 0; i < LITTER; i++)
            tell(start_one(&child), 1);
        *born += LITTER;
    }
    return 0;
}

static int know_mother(weft_actor *self, const char *method, const weft_buf *input)
{
    mother = weft_actor_pid(self);
    (void)method, (void)input;
    return 0;
}

static void spawn(void)
{
    static const struct weft_actor_kind kind = {
        .name = "mother", .state_bytes = sizeof(long), .init = know_mother, .step = bear};
    begun = now_ns();
    join(start_one(&kind));
    report("weft", "actor_spawn", "", LIVES / seconds() / 1e6, "Mactor/s");
}

/* --- restart: children that fail repeatedly --------------------------------------------------- */

enum { RESTARTS = 100000, SUPERVISORS = 100 };

static atomic_long well;

/* Every child fails equally often. */
static int fail(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    static atomic_long starts;
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    if (atomic_fetch_add_explicit(&starts, 1, memory_order_relaxed) < RESTARTS)
        return -EIO;
    if (atomic_load_explicit(&well, memory_order_relaxed) == SUPERVISORS - 1)
        ended = now_ns();
    atomic_fetch_add_explicit(&well, 1, memory_order_release);
    weft_out_done(out, NULL);
    return 0;
}

static void restart(void)
{
    static const struct weft_actor_kind kind = {.name = "fragile", .step = fail};
    static const struct weft_child_spec child = {
        .name = "child", .kind = &kind, .restart = WEFT_CHILD_TRANSIENT};
    static const struct weft_supervisor_opts opts = {
        .children = &child, .count = 1, .restarts = WEFT_RESTARTS_UNLIMITED};
    begun = now_ns();
    for (int i = 0; i < SUPERVISORS; i++)
        must(weft_supervisor_start(host, NULL, &opts), "weft_supervisor_start");
    while (atomic_load_explicit(&well, memory_order_acquire) != SUPERVISORS)
        usleep(1000);
    report("weft", "actor_restart", "", RESTARTS / seconds(), "restart/s");
}

/* --- memory: idle actors ---------------------------------------------------------------------- */

static atomic_long idle;

static int be_idle(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    atomic_fetch_add_explicit(&idle, 1, memory_order_relaxed);
    weft_out_idle(out);
    return 0;
}

static void memory(void)
{
    static const struct weft_actor_kind kind = {.name = "idle", .step = be_idle};
    double before = resident_bytes();
    for (int i = 0; i < LIVES; i++)
        start_one(&kind);
    while (atomic_load_explicit(&idle, memory_order_relaxed) != LIVES)
        usleep(1000);
    report("weft", "actor_memory", "", (resident_bytes() - before) / LIVES, "B/actor");
    _exit(0); /* skips the idle actors */
}

/* --- call: one actor calls, another replies --------------------------------------------------- */

enum { CALLS = 1000000 };

static int answer_calls(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        must(weft_actor_reply(events[i].tag, 0, NULL), "weft_actor_reply");
    weft_out_idle(out);
    return 0;
}

static int make_calls(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    begun = now_ns();
    for (int i = 0; i < CALLS; i++)
        must(weft_actor_call(opponent, NULL, "ask", NULL, WEFT_FOREVER), "weft_actor_call");
    ended = now_ns();
    return 0;
}

static void call(void)
{
    static const struct weft_actor_kind answerer = {.name = "answerer", .step = answer_calls},
                                        caller = {.name = "caller", .run = make_calls};
    opponent = start_one(&answerer);
    join(start_one(&caller));
    report("weft", "actor_call", "", seconds() * 1e9 / CALLS, "ns/call");
}

/* --- step: one command per step, completed at once; a message to an idle actor ---------------- */

enum { COMMANDS = 5000000, WAKES = 2000, NOTHING = 300 };

static int do_nothing(const struct weft_command *command, void *arg)
{
    (void)arg;
    return weft_command_complete(command->actor, command->tag, 0, NULL);
}

static int ask(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    uint64_t *asked = weft_actor_state(self);
    (void)events, (void)n;
    if (*asked == COMMANDS) {
        ended = now_ns();
        weft_out_done(out, NULL);
        return 0;
    }
    return weft_out_command(out, NOTHING, ++*asked, NULL);
}

static atomic_uint_least64_t woken_at;

static int note_time(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self, (void)events;
    if (n)
        atomic_store_explicit(&woken_at, now_ns(), memory_order_release);
    weft_out_idle(out);
    return 0;
}

static void step(void)
{
    static const struct weft_actor_kind asker = {
        .name = "asker", .state_bytes = sizeof(uint64_t), .step = ask};
    static const struct weft_actor_kind sleeper = {.name = "sleeper", .step = note_time};
    static uint64_t took[WAKES];
    begun = now_ns();
    join(start_one(&asker));
    report("weft", "actor_step", "", seconds() * 1e9 / COMMANDS, "ns/step");
    weft_pid pid = start_one(&sleeper);
    for (int i = 0; i < WAKES; i++) {
        uint64_t at;
        usleep(100);
        atomic_store_explicit(&woken_at, 0, memory_order_relaxed);
        uint64_t sent = now_ns();
        tell(pid, 0);
        while (!(at = atomic_load_explicit(&woken_at, memory_order_acquire)))
            sched_yield();
        took[i] = at - sent;
    }
    report_latency("weft", "actor_wake", took, WAKES);
}

/* ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} workloads[] = {
    {"pingpong", pingpong}, {"ring", go_round},   {"fanin", fanin}, {"spawn", spawn},
    {"memory", memory},     {"restart", restart}, {"call", call},   {"step", step},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "pingpong";
    if (argc > 2)
        workers = argv[2];
    struct weft_host_opts opts = {.workers = (unsigned)atoi(workers)};
    must(weft_host_create(&host, &opts), "weft_host_create");
    must(weft_host_handle(host, NOTHING, do_nothing, NULL), "weft_host_handle");
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (!strcmp(workloads[i].name, name))
            workloads[i].run();
    _exit(0); /* skips the remaining cleanup */
}
