/* Stack guards: each of the three kinds, and each where it is hard to keep: with locked memory,
 * after a fork, after a trim. A fiber of a child process overflows its stack, and the child must
 * not survive. */
/* not under: valgrind */
#include "context/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "context/overflow.h"
#include "context/stack.h"

#define STACK_BYTES ((size_t)16 * 1024)
#define BEYOND (STACK_BYTES + 8 * 1024)
#define NOT_HERE 42 /* exit status of a child whose machine lacks the tested feature */

static const char *const names[] = {"guard-install", "mprotect", "canary"};

struct plan {
    enum weft__guard limit;
    void (*prepare)(void);    /* before the first fiber */
    void (*in_between)(void); /* between the ordinary fibers and the one that overflows */
    bool in_fork;             /* the fiber overflows in a fork of the process that created it */
    enum weft__guard guard;   /* the expected kind of guard */
};

#define ORDINARY 80 /* at once: more than a worker caches */

static atomic_int behaving;

static void *behave(void *all)
{
    recurse_below(__builtin_frame_address(0), STACK_BYTES - 6 * 1024);
    atomic_fetch_add(&behaving, 1);
    while (atomic_load(&behaving) % (int)(intptr_t)all != 0) {
        weft_yield(); /* until all have a stack */
    }
    return NULL;
}

static void *overflow(void *arg)
{
    recurse_below(__builtin_frame_address(0), BEYOND);
    return arg;
}

/* The forked process has one thread, which is in this fiber. */
static void *overflow_in_fork(void *arg)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        overflow(NULL);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status));
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status)); /* ends as the grandchild did */
    return arg;
}

/* Runs fibers without an overflow, on the stacks that the next fibers reuse. */
static void run_ordinary_fibers(void)
{
    weft_fiber fibers[ORDINARY];
    struct weft_fiber_opts opts = {.stack_bytes = STACK_BYTES};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ORDINARY; i++) {
            CHECK_EQ(weft_spawn(&fibers[i], behave, (void *)ORDINARY, &opts), 0);
        }
        for (int i = 0; i < ORDINARY; i++) {
            CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        }
    }
}

static void *park(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

static void *follow(void *arg)
{
    const struct plan *plan = arg;
    struct weft_fiber_opts opts = {.stack_bytes = STACK_BYTES, .name = "victim"};
    struct weft_memory_stats memory;
    weft_fiber victim;
    run_ordinary_fibers();
    if (plan->in_between) {
        plan->in_between();
        run_ordinary_fibers();
    }
    fprintf(stderr, "so far nobody was accused\n");
    weft_memory_stats(&memory);
    if (strcmp(memory.guard, names[plan->guard]) != 0) {
        check_fail(__FILE__, __LINE__, "guarded by %s", memory.guard);
    }
    CHECK_EQ(weft_spawn(&victim, plan->in_fork ? overflow_in_fork : overflow, NULL, &opts), 0);
    CHECK_EQ(weft_join(victim, NULL, WEFT_FOREVER), 0);
    return NULL;
}

static void run_plan(void *arg)
{
    const struct plan *plan = arg;
    no_core_file();
    weft__stack_limit_guard(plan->limit);
    if (plan->prepare) {
        plan->prepare();
    }
    CHECK_EQ(weft_run(NULL, follow, arg, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER), 0);
}

static void check_plan(struct plan *plan)
{
    char err[CHECK_ERR];
    int status = check_child(run_plan, plan, err, sizeof err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE) {
        printf("not here: %s", err);
        return;
    }
    if (!strstr(err, "so far nobody was accused")) {
        check_fail(__FILE__, __LINE__, "status 0x%x, stderr:\n%s", (unsigned)status, err);
    }
    if (plan->guard == WEFT__GUARD_CANARY) {
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
            !strstr(err, "found by its canary")) {
            check_fail(__FILE__, __LINE__, "status 0x%x, stderr:\n%s", (unsigned)status, err);
        }
    } else {
        check_report(status, err, "victim", STACK_BYTES);
    }
}

/* A kernel without guard markers uses the next kind instead. */
static struct plan forced(enum weft__guard kind)
{
    enum weft__guard best = weft__guard_best();
    return (struct plan){.limit = kind, .guard = kind > best ? kind : best};
}

TEST(every_guard_kind_stops_overflow)
{
    printf("best here: %s\n", names[weft__guard_best()]);
    for (int kind = WEFT__GUARD_INSTALL; kind <= WEFT__GUARD_CANARY; kind++) {
        struct plan plan = forced((enum weft__guard)kind);
        check_plan(&plan);
    }
}

/* The worker's cached stacks are not trimmed: they are given to permanent users, so that the victim
 * gets a trimmed stack. */
static void trim(void)
{
    struct weft_fiber_opts opts = {.stack_bytes = STACK_BYTES};
    size_t trimmed = weft__stack_trim(0, SIZE_MAX);
    CHECK(trimmed >= ORDINARY / 2);
    for (size_t i = 0; i < ORDINARY - trimmed + 1; i++) {
        CHECK_EQ(weft_spawn(NULL, park, NULL, &opts), 0);
    }
}

TEST(every_guard_kind_survives_trim)
{
    for (int kind = WEFT__GUARD_INSTALL; kind <= WEFT__GUARD_CANARY; kind++) {
        struct plan plan = forced((enum weft__guard)kind);
        plan.in_between = trim;
        check_plan(&plan);
    }
}

TEST(guards_persist_after_fork)
{
    for (int kind = WEFT__GUARD_INSTALL; kind <= WEFT__GUARD_MPROTECT; kind++) {
        struct plan plan = forced((enum weft__guard)kind);
        plan.in_fork = true;
        check_plan(&plan);
    }
}

/* --- locked memory -------------------------------------------------------------------------- */

#if !WEFT__ASAN && !WEFT__TSAN
#define LOCKED_ROOM ((size_t)256 << 20)

static void lock_memory(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        fprintf(stderr, "mlockall: %s\n", strerror(errno));
        _exit(NOT_HERE);
    }
    /* Without privileges only as much as the limit allows: then there is no memory for stacks. */
    void *room = mmap(NULL, LOCKED_ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        fprintf(stderr, "locked memory: %s\n", strerror(errno));
        _exit(NOT_HERE);
    }
    munmap(room, LOCKED_ROOM);
}

static size_t resident_bytes(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long size, resident;
    CHECK(statm != NULL);
    CHECK_EQ(fscanf(statm, "%lu %lu", &size, &resident), 2);
    fclose(statm);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(stacks_in_locked_memory_are_guarded_by_mprotect)
{
    struct plan plan = {.prepare = lock_memory, .guard = WEFT__GUARD_MPROTECT};
    check_plan(&plan);
}

TEST(stacks_locked_later_keep_their_guards)
{
    struct plan plan = forced(WEFT__GUARD_INSTALL);
    plan.in_between = lock_memory;
    check_plan(&plan);
}

static void *use_some_stacks(void *arg)
{
    weft_fiber fiber;
    run_ordinary_fibers();
    struct weft_fiber_opts large = {.stack_bytes = 1 << 20};
    atomic_store(&behaving, 0);
    CHECK_EQ(weft_spawn(&fiber, behave, (void *)1, &large), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return arg;
}

static void run_in_locked_memory(void *arg)
{
    (void)arg;
    lock_memory();
    size_t before = resident_bytes();
    CHECK_EQ(
        weft_run(NULL, use_some_stacks, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER),
        0);
    size_t more = resident_bytes() - before;
    fprintf(stderr, "%zu KiB locked\n", more / 1024);
    CHECK(more < (size_t)64 << 20);
}

TEST(guards_waste_no_locked_memory)
{
    char err[CHECK_ERR];
    int status = check_child(run_in_locked_memory, NULL, err, sizeof err);
    printf("%s", err);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NOT_HERE));
}
#endif
