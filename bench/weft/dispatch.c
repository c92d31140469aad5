/* One dispatcher, one group, frame fibers: the benchmarks of Dongting, the origin of this design
 * (bench/README.md).
 * usage: dispatch yield FIBERS | pingpong | timeout PARKED | call | create | chan PAIRS | submit |
 *                 flat
 * A third argument is the number of operations, to count instructions.
 */
#include "program.h"

#include <errno.h>

static weft_dispatcher *dispatcher;
static weft_group *group;

/* --- counting operations ---------------------------------------------------------------------- */

/* The first part of the operations is the warm-up; the clock runs for the others. */
static long left, measured;
static uint64_t began;
static double took;
static bool over;
static long asked; /* 0: the workload's default */

static void count_to(long n)
{
    n = asked ? asked : n;
    measured = n - n / 4;
    left = n / 4;
    began = 0;
    over = false;
}

static bool phase_is_over(void)
{
    if (!began) {
        began = now_ns();
        left = measured;
    } else {
        took = over ? took : ns_since(began);
        over = true;
        left = 1; /* the next caller gets true again */
    }
    return over;
}

/* Counts one operation. Returns true when all are done. */
static inline bool counted(void)
{
    return __builtin_expect(--left == 0, 0) && phase_is_over();
}

/* Millions of operations per second. */
static void report_rate(const char *peer, const char *row, const char *suffix)
{
    report(peer, row, suffix, (double)measured * 1e3 / took, "M/s");
}

/* --- the dispatcher -------------------------------------------------------------------------- */

static void open_group(bool caller, const int *cpu)
{
    struct weft_dispatcher_opts opts = {.caller = caller, .cpu = cpu, .hog_ns = -1};
    must(weft_dispatcher_create(&dispatcher, &opts), "weft_dispatcher_create");
    must(weft_group_create(dispatcher, &group, NULL), "weft_group_create");
}

/* Runs the dispatcher on this thread until the last fiber has ended. */
static void run_here(void)
{
    weft_group_stop(group);
    must(weft_dispatcher_run(dispatcher), "weft_dispatcher_run");
}

static void stop_and_go(void)
{
    must(weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER), "weft_dispatcher_stop");
    weft_dispatcher_destroy(dispatcher);
}

static void start(weft_frame *frame, unsigned signals)
{
    struct weft_member_opts opts = {.signals_per_round = signals};
    must(weft_group_spawn_frame(group, NULL, frame, &opts), "weft_group_spawn_frame");
}

static void *frame_of(const struct weft_frame_kind *kind, size_t bytes)
{
    weft_frame *frame = weft_frame_create(kind, bytes);
    must(frame ? 0 : -ENOMEM, "weft_frame_create");
    return frame;
}

/* --- yield ------------------------------------------------------------------------------------ */

static enum weft_step yields(weft_frame *f, struct weft_got got)
{
    (void)got;
    return counted() ? weft_frame_return(f, NULL) : weft_frame_yield(f, WEFT_THEN(yields));
}

static void bench_yield(long fibers)
{
    static const struct weft_frame_kind kind = {.name = "yield", .start = yields};
    char suffix[32];
    open_group(true, NULL);
    count_to(20000000);
    for (long i = 0; i < fibers; i++)
        start(frame_of(&kind, sizeof(weft_frame)), 0);
    run_here();
    snprintf(suffix, sizeof suffix, "_%ldk", fibers / 1000);
    report_rate("weft", "d_yield", suffix);
}

/* --- two fibers that signal one another ------------------------------------------------------- */

struct party {
    weft_frame frame;
    struct weft_wait wait;
    weft_cond mine;
    struct party *other;
    int64_t timeout; /* 0: none */
    bool counts;
};

static enum weft_step play(weft_frame *f, struct weft_got got)
{
    struct party *self = (struct party *)f;
    must(got.status, "await");
    weft_cond_signal(&self->other->mine);
    if (self->counts ? counted() : over)
        return weft_frame_return(f, NULL);
    /* The latest of all timers: the worst position for a queue that is searched from its front. */
    int64_t deadline = self->timeout ? self->timeout++ : WEFT_FOREVER;
    return weft_frame_await_cond(f, &self->wait, &self->mine, deadline, WEFT_THEN(play));
}

static const struct weft_frame_kind playing = {.name = "play", .start = play};

static enum weft_step wakes_up(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step sleeps(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_sleep(f, weft_after(60000000000), WEFT_THEN(wakes_up));
}

/* The parked fibers sleep until the players have ended. */
static void park_others(long n)
{
    static const struct weft_frame_kind kind = {.name = "sleep", .start = sleeps};
    for (long i = 0; i < n; i++)
        must(weft_group_spawn_frame(group, NULL, frame_of(&kind, sizeof(weft_frame)),
                                    &(struct weft_member_opts){.daemon = true}),
             "weft_group_spawn_frame");
}

static void play_rounds(const char *peer, const char *suffix, int64_t timeout, long parked)
{
    struct party parties[2];
    open_group(true, NULL);
    park_others(parked);
    count_to(8000000);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){.other = &parties[1 - i], .timeout = timeout, .counts = !i};
        weft_cond_init(&parties[i].mine, &(struct weft_sync_opts){.group = group});
        weft_frame_init(&parties[i].frame, &playing);
        start(&parties[i].frame, UINT16_MAX);
    }
    run_here();
    report_rate(peer, "d_pingpong", suffix);
    stop_and_go();
}

/* With other fibers parked, the limit is the same run without them, measured before. */
static void bench_timeout(long parked)
{
    char suffix[32] = "_timeout_0";
    if (parked) {
        snprintf(suffix, sizeof suffix, "_timeout_%ldk", parked / 1000);
        play_rounds("limit", suffix, weft_after(3600000000000), 0);
    }
    play_rounds("weft", suffix, weft_after(3600000000000), parked);
}

/* --- calls ------------------------------------------------------------------------------------ */

static enum weft_step answers(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, f);
}

static enum weft_step calls(weft_frame *f, struct weft_got got)
{
    static const struct weft_frame_kind kind = {.name = "answer", .start = answers};
    (void)got;
    if (counted())
        return weft_frame_return(f, NULL);
    if (left % 1024 == 0)
        return weft_frame_yield(f, WEFT_THEN(calls));
    return weft_frame_call(f, frame_of(&kind, sizeof(weft_frame)), WEFT_THEN(calls));
}

static void bench_call(void)
{
    static const struct weft_frame_kind kind = {.name = "call", .start = calls};
    open_group(true, NULL);
    count_to(20000000);
    start(frame_of(&kind, sizeof(weft_frame)), 0);
    run_here();
    report_rate("weft", "d_call", "");
}

/* --- starting and ending fibers --------------------------------------------------------------- */

static enum weft_step is_born(weft_frame *f, struct weft_got got)
{
    (void)got;
    counted();
    return weft_frame_return(f, NULL);
}

static enum weft_step makes(weft_frame *f, struct weft_got got)
{
    static const struct weft_frame_kind kind = {.name = "born", .start = is_born};
    (void)got;
    if (over)
        return weft_frame_return(f, NULL);
    for (int i = 0; i < 1000; i++)
        must(weft_group_spawn_frame(group, NULL, frame_of(&kind, sizeof(weft_frame)), NULL),
             "weft_group_spawn_frame");
    return weft_frame_yield(f, WEFT_THEN(makes));
}

static void bench_create(void)
{
    static const struct weft_frame_kind kind = {.name = "make", .start = makes};
    open_group(true, NULL);
    count_to(8000000);
    start(frame_of(&kind, sizeof(weft_frame)), 0);
    run_here();
    report_rate("weft", "d_create", "");
}

/* --- a channel -------------------------------------------------------------------------------- */

struct end {
    weft_frame frame;
    struct weft_wait wait;
    weft_chan *chan;
    uintptr_t item;
};

static enum weft_step produces(weft_frame *f, struct weft_got got);

static enum weft_step has_sent(weft_frame *f, struct weft_got got)
{
    must(got.status, "send");
    return weft_frame_yield(f, WEFT_THEN(produces));
}

static enum weft_step produces(weft_frame *f, struct weft_got got)
{
    struct end *self = (struct end *)f;
    (void)got;
    if (over) {
        weft_chan_close(self->chan);
        return weft_frame_return(f, NULL);
    }
    self->item++;
    return weft_frame_await_send(f, &self->wait, self->chan, &self->item, WEFT_FOREVER,
                                 WEFT_THEN(has_sent));
}

static enum weft_step consumes(weft_frame *f, struct weft_got got)
{
    struct end *self = (struct end *)f;
    if (got.status)
        return weft_frame_return(f, NULL); /* closed */
    if (self->item)
        counted();
    return weft_frame_await_recv(f, &self->wait, self->chan, &self->item, WEFT_FOREVER,
                                 WEFT_THEN(consumes));
}

static void start_end(weft_chan *chan, const struct weft_frame_kind *kind)
{
    struct end *end = frame_of(kind, sizeof *end);
    end->chan = chan;
    start(&end->frame, 0);
}

static void bench_chan(int pairs)
{
    static const struct weft_frame_kind producer = {.name = "produce", .start = produces};
    static const struct weft_frame_kind consumer = {.name = "consume", .start = consumes};
    weft_chan *chan;
    open_group(true, NULL);
    count_to(10000000);
    must(weft_chan_create(&chan, sizeof(uintptr_t),
                          &(struct weft_chan_opts){.capacity = 1024, .group = group}),
         "weft_chan_create");
    for (int i = 0; i < pairs; i++) {
        start_end(chan, &consumer);
        start_end(chan, &producer);
    }
    run_here();
    report_rate("weft", "d_chan", pairs == 1 ? "" : "_10");
}

/* --- from another thread ---------------------------------------------------------------------- */

struct request {
    struct weft_post post;
    weft_event answered;
};

static void answer(struct weft_post *post)
{
    struct request *request = (struct request *)(void *)post;
    weft_event_set(&request->answered);
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void bench_submit(void)
{
    enum { TRIPS = 100000 };
    open_group(false, NULL);
    must(weft_dispatcher_start(dispatcher), "weft_dispatcher_start");
    uint64_t start_ns = 0;
    for (int i = 0; i < TRIPS; i++) {
        struct request request = {.post.fn = answer};
        if (i == TRIPS / 4)
            start_ns = now_ns();
        weft_event_init(&request.answered, NULL);
        must(weft_group_submit(group, &request.post), "weft_group_submit");
        must(weft_event_wait(&request.answered, WEFT_FOREVER), "weft_event_wait");
        weft_event_deinit(&request.answered);
    }
    report("weft", "d_submit", "", ns_since(start_ns) / (TRIPS - TRIPS / 4) / 1e3, "us");
    double used = cpu_us();
    usleep(200000);
    report("weft", "d_submit", "_idle", cpu_us() - used, "us");
    stop_and_go();
}

/* Each item is a separate post that puts the item into the consumer's unbounded queue. */
struct item {
    struct weft_post post;
    struct item *next;
};

static struct {
    struct item *first, **last;
    weft_cond filled;
} queue;

static struct item *items;

static void offer(struct weft_post *post)
{
    struct item *item = (struct item *)(void *)post;
    item->next = NULL;
    *queue.last = item;
    queue.last = &item->next;
    weft_cond_signal(&queue.filled);
}

static atomic_bool consumed;

static enum weft_step drains(weft_frame *f, struct weft_got got)
{
    struct end *self = (struct end *)f;
    (void)got;
    while (queue.first) {
        queue.first = queue.first->next;
        if (counted()) {
            atomic_store(&consumed, true);
            return weft_frame_return(f, NULL);
        }
    }
    queue.last = &queue.first;
    return weft_frame_await_cond(f, &self->wait, &queue.filled, WEFT_FOREVER, WEFT_THEN(drains));
}

static void bench_flat(void)
{
    static const struct weft_frame_kind kind = {.name = "drain", .start = drains};
    const int cpu = 0;
    open_group(false, &cpu);
    count_to(4000000);
    long n = left + measured;
    items = calloc((size_t)n, sizeof *items);
    must(items ? 0 : -ENOMEM, "calloc");
    memset(items, 1, (size_t)n * sizeof *items); /* touch the pages before measuring */
    queue.last = &queue.first;
    weft_cond_init(&queue.filled, &(struct weft_sync_opts){.group = group});
    start(frame_of(&kind, sizeof(struct end)), 0);
    must(weft_dispatcher_start(dispatcher), "weft_dispatcher_start");
    pin_to(1);
    for (long i = 0; i < n; i++) {
        items[i].post.fn = offer;
        must(weft_group_submit(group, &items[i].post), "weft_group_submit");
    }
    while (!atomic_load(&consumed))
        sched_yield();
    report_rate("weft", "d_submit", "_flat");
    stop_and_go();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    long n = argc > 2 ? atol(argv[2]) : 0;
    asked = argc > 3 ? atol(argv[3]) : 0;
    if (!strcmp(mode, "yield"))
        bench_yield(n);
    else if (!strcmp(mode, "pingpong"))
        play_rounds("weft", "", 0, 0);
    else if (!strcmp(mode, "timeout"))
        bench_timeout(n);
    else if (!strcmp(mode, "call"))
        bench_call();
    else if (!strcmp(mode, "create"))
        bench_create();
    else if (!strcmp(mode, "chan"))
        bench_chan((int)n);
    else if (!strcmp(mode, "submit"))
        bench_submit();
    else if (!strcmp(mode, "flat"))
        bench_flat();
    else
        return fprintf(stderr,
                       "usage: dispatch yield|pingpong|timeout|call|create|chan|submit|flat\n"),
               1;
}
