/* The threads of an execution: coroutines on one OS thread, scheduling, the futex, busy loops. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "model/explore_internal.h"

#define STACK_BYTES (64 * 1024)
#define COAST_TURNS 300 /* a busy loop that ends by itself does so within this many turns */
#define COUNTERS 64

struct thread threads[X_THREADS + 1], *self;
uint64_t graph_hash;
char failure[512];

static char stacks[X_THREADS + 1][STACK_BYTES] __attribute__((aligned(64)));
static const struct x_client *client;
static void *engine; /* stack pointer of run_execution while a thread runs */
static enum result result;
static volatile sig_atomic_t inside; /* a thread of the client runs */
static volatile long operations;
static sigjmp_buf crash;
static int steps, spurious_left, preemptions;
int stale_reads;
static int counters[COUNTERS];

/* ---- switching ---- */

void switch_stacks(void **save, void *load);
__asm__(".text\n"
        ".type switch_stacks, @function\n"
        "switch_stacks:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size switch_stacks, . - switch_stacks\n");

static void go_to(struct thread *next)
{
    struct thread *before = self;
    if (next != before) {
        self = next;
        switch_stacks(&before->stack_pointer, next->stack_pointer);
    }
}

void end_execution(enum result how)
{
    result = how;
    void *dropped;
    switch_stacks(&dropped, engine);
    abort();
}

static struct thread *pick(void);

void x_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(failure, sizeof failure, format, args);
    va_end(args);
    if (ahead_keep_back(failure)) {
        self->status = ENDED;
        go_to(pick());
        abort();
    }
    end_execution(FAILED);
}

/* ---- events and state ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

uint64_t event_begin(void)
{
    self->view.clock[self->index] = (int16_t)++self->events;
    return mix((uint64_t)(self->index + 1) << 32 | (uint64_t)self->events);
}

/* A sum, so that the order in which independent events ran does not matter. */
void event_end(uint64_t id, int kind, uintptr_t at, uint64_t read_from, uint64_t after)
{
    uint64_t hash = mix(id + (uint64_t)kind);
    hash = mix(hash ^ at);
    hash = mix(hash ^ read_from);
    graph_hash += mix(hash + 0x9e3779b97f4a7c15u * after);
}

/* ---- scheduling ---- */

static bool enabled(const struct thread *thread)
{
    switch (thread->status) {
    case READY:
        return true;
    case SLEEPING:
        return thread->woken || thread->timed;
    case SPINNING:
        return turn_is_stale(thread);
    default:
        return false;
    }
}

/* All threads have ended, or there is a failure. */
static struct thread *nobody_can_go_on(void)
{
    ahead_end();
    bool spins = false, sleeps = false;
    for (int i = 0; i < client->threads; i++) {
        const struct thread *thread = &threads[i];
        if (thread->status == SLEEPING || thread->status == SPINNING) {
            trace(NULL, NULL, "stuck", "T%d %s for ever", i,
                  thread->status == SLEEPING ? "sleeps" : "spins");
        }
        spins |= thread->status == SPINNING;
        sleeps |= thread->status == SLEEPING;
    }
    if (spins) {
        x_fail("livelock: every thread that has not ended spins or sleeps for ever");
    }
    if (sleeps) {
        x_fail("deadlock: every thread that has not ended sleeps for ever");
    }
    return &threads[MAIN];
}

/* Picks the thread that continues. The caller has put what it waits for into its status. */
static struct thread *pick(void)
{
    struct thread *list[X_THREADS];
    int n = 0;
    bool could_go_on = enabled(self);
    if (could_go_on) {
        list[n++] = self;
    }
    if (!could_go_on || client->preemptions == 0 || preemptions < client->preemptions) {
        for (int i = 0; i < client->threads; i++) {
            if (&threads[i] != self && enabled(&threads[i])) {
                list[n++] = &threads[i];
            }
        }
    }
    if (n == 0) {
        return nobody_can_go_on();
    }
    uint64_t state = graph_hash; /* the rest of a bound is part of the state */
    if (client->stale) {
        state = mix(state + (uint64_t)stale_reads);
    }
    if (client->preemptions) {
        state =
            mix(state + (uint64_t)(could_go_on ? self->index + 1 : 0) * 64 + (uint64_t)preemptions);
    }
    struct thread *next = list[search_schedule(list, n, state)];
    preemptions += could_go_on && next != self;
    return next;
}

static void count_step(void)
{
    operations++;
    if (++steps > STEPS) {
        x_fail("livelock: no end after %d operations", STEPS);
    }
}

void scheduling_point(void)
{
    count_step();
    if (self->index == MAIN) {
        return;
    }
    self->coasting = false;
    if (self->status == NEW) { /* all threads reach their first operation before any continues */
        self->status = READY;
        go_to(&threads[MAIN]);
        return;
    }
    go_to(pick());
}

bool may_read_stale(void)
{
    return self->index != MAIN && (client->stale == 0 || stale_reads < client->stale);
}

bool spend_spurious(void)
{
    if (self->index == MAIN || spurious_left == 0 || search_choose(2) == 0) {
        return false;
    }
    spurious_left--;
    return true;
}

int x_thread(void)
{
    return self->index == MAIN ? -1 : self->index;
}

int x_choose(int n)
{
    int choice = search_choose(n);
    event_end(event_begin(), 1, 0, (uint64_t)choice, 0);
    trace(NULL, NULL, "choose", "%d of %d", choice, n);
    return choice;
}

/* ---- busy loops ---- */

void x_spin(void)
{
    if (self->index == MAIN || self->turn_reads == 0) {
        scheduling_point();
        return;
    }
    if (self->coasting) {
        count_step();
        if (++self->coasted > COAST_TURNS) {
            end_execution(PRUNED); /* the loop does not end by itself: waiting covers it */
        }
        return;
    }
    if (search_choose(2)) {
        event_end(event_begin(), 2, 0, 0, 0);
        trace(NULL, NULL, "coast", "reads the same until the loop ends");
        self->coasting = true;
        self->coasted = 0;
        return;
    }
    count_step();
    self->status = SPINNING;
    go_to(pick());
    self->status = READY;
    turn_refresh(self);
}

/* ---- futex ---- */

int x_futex_wait(uint32_t *word, uint32_t expected, int64_t deadline)
{
    scheduling_point();
    uint64_t id = event_begin();
    const struct message *newest = read_newest(self, location_of(word, sizeof *word, false));
    bool sleeps = newest->value == expected && !spend_spurious();
    event_end(id, sleeps ? 3 : 4, (uintptr_t)word, newest->id, 0);
    trace(NULL, word, "futex wait", "for %s, is %s%s", value_text(expected),
          value_text(newest->value), sleeps ? ": sleeps" : "");
    if (!sleeps) {
        return 0;
    }
    if (self->index == MAIN) {
        x_fail("deadlock: setup or check sleeps");
    }
    self->sleeps_on = word;
    self->timed = deadline != INT64_MAX;
    self->woken = false;
    self->wait_id = id;
    self->status = SLEEPING;
    go_to(pick());
    self->status = READY;
    event_end(event_begin(), 5, (uintptr_t)word, self->woken ? self->waker_id : 0, 0);
    trace(NULL, word, self->woken ? "woken" : "timed out", " ");
    return self->woken ? 0 : -ETIMEDOUT;
}

void x_futex_wake(uint32_t *word, int n)
{
    scheduling_point();
    uint64_t id = event_begin();
    uint64_t woken_hash = 0;
    int woken = 0;
    for (; woken < n; woken++) {
        struct thread *sleepers[X_THREADS];
        int count = 0;
        for (int i = 0; i < client->threads; i++) {
            if (threads[i].status == SLEEPING && threads[i].sleeps_on == word &&
                !threads[i].woken) {
                sleepers[count++] = &threads[i];
            }
        }
        if (count == 0) {
            break;
        }
        struct thread *sleeper = sleepers[count > n - woken ? search_choose(count) : 0];
        sleeper->woken = true;
        sleeper->waker_id = id;
        woken_hash += sleeper->wait_id;
    }
    event_end(id, 6, (uintptr_t)word, woken_hash, 0);
    trace(NULL, word, "futex wake", "%d", woken);
}

/* ---- counters ---- */

void x_count(int counter)
{
    counters[counter]++;
}

int x_counted(int counter)
{
    return counters[counter];
}

/* ---- the life cycle of an execution ---- */

static void start(int index, const struct view *view);

/* Sets up, lets each thread reach its first operation, hands over, and checks when all have
 * ended. */
static void main_body(void)
{
    struct thread *main = self;
    client->setup();
    event_begin();
    for (int i = 0; i < client->threads; i++) {
        start(i, &main->view);
        go_to(&threads[i]);
    }
    main->status = ENDED;
    go_to(pick());
    for (int i = 0; i < client->threads; i++) {
        view_join(&main->view, &threads[i].view);
    }
    if (client->check) {
        client->check();
    }
    race_end();
    end_execution(COMPLETE);
}

static void thread_body(void)
{
    client->thread(self->index);
    trace(NULL, NULL, "end", " ");
    event_begin();
    bool did_nothing = self->status == NEW;
    self->status = ENDED;
    go_to(did_nothing ? &threads[MAIN] : pick());
    abort();
}

static void start(int index, const struct view *view)
{
    struct thread *thread = &threads[index];
    memset(thread, 0, sizeof *thread);
    thread->index = index;
    if (view) {
        thread->view = *view;
    }
    /* As if it had been switched away from at its entry function: six registers, and the alignment
     * of a call. */
    void **top = (void **)(stacks[index] + STACK_BYTES) - 2;
    memset(top - 6, 0, 8 * sizeof *top);
    top[0] = index == MAIN ? (void *)main_body : (void *)thread_body;
    thread->stack_pointer = top - 6;
}

/* A crash or an endless loop of the client is a failure of this execution like any other. */
static void on_signal(int number)
{
    if (number == SIGPROF) {
        static long last;
        static int ticks;
        ticks = operations == last ? ticks + 1 : 0;
        last = operations;
        if (!inside || ticks < 4) {
            return;
        }
        ticks = 0;
    }
    if (!inside) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    siglongjmp(crash, number);
}

static void catch_signals(void)
{
    static char alternate[64 * 1024];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGPROF};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, NULL);
    }
    struct itimerval half_second = {{0, 500000}, {0, 500000}};
    setitimer(ITIMER_PROF, &half_second, NULL);
}

enum result run_execution(const struct x_client *of)
{
    static bool caught;
    if (!caught) {
        caught = true;
        catch_signals();
    }
    client = of;
    result = RUNNING;
    failure[0] = '\0';
    steps = 0;
    preemptions = 0;
    stale_reads = 0;
    spurious_left = client->spurious;
    graph_hash = 0;
    memset(counters, 0, sizeof counters);
    memory_reset();
    ahead_reset();
    race_reset();
    trace_names_reset();
    start(MAIN, NULL);
    int number = sigsetjmp(crash, 0);
    if (number) {
        inside = 0;
        snprintf(failure, sizeof failure,
                 number == SIGPROF ? "endless loop without an operation%s" : "crash: %s",
                 number == SIGPROF ? "" : strsignal(number));
        return FAILED;
    }
    self = &threads[MAIN];
    inside = 1;
    switch_stacks(&engine, self->stack_pointer);
    inside = 0;
    return result;
}
