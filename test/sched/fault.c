/* Faults: a stack overflow ends the process with a report that names the fiber; any other fault
 * goes to the handler that would have received it without Weft. */
/* not under: valgrind */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "context/overflow.h"
#include "context/stack.h"
#include "pool/fixture.h"

/* --- reports -------------------------------------------------------------------------------- */

struct overflow {
    unsigned (*how)(void);
    size_t stack_bytes;
    const char *name;
    bool in_pool_thread; /* otherwise on the thread that created the pool */
};

static void *run_over(void *arg)
{
    const struct overflow *overflow = arg;
    weft_yield();
    return (void *)(uintptr_t)overflow->how();
}

static void *spawn_overflow(void *arg)
{
    const struct overflow *overflow = arg;
    struct weft_fiber_opts opts = {.stack_bytes = overflow->stack_bytes,
                                   .name = overflow->name,
                                   .bound = true,
                                   .worker = overflow->in_pool_thread};
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, run_over, arg, &opts), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

static void overflow_in_child(void *arg)
{
    no_core_file();
    run_in_fiber(2, spawn_overflow, arg);
}

static void check_overflow(struct overflow *overflow)
{
    char err[CHECK_ERR];
    int status = check_child(overflow_in_child, overflow, err, sizeof err);
    check_report(status, err, overflow->name ? overflow->name : "(unnamed)", overflow->stack_bytes);
}

TEST(stack_overflow_by_recursion_is_reported)
{
    check_overflow(&(struct overflow){deep_recursion, 64 * 1024, "deep", false});
    check_overflow(&(struct overflow){deep_recursion, 16 * 1024, "deep", true});
}

TEST(stack_overflow_by_64_kib_frame_is_reported)
{
    check_overflow(&(struct overflow){one_large_frame, 64 * 1024, "large", false});
    check_overflow(&(struct overflow){one_large_frame, 16 * 1024, "large", true});
}

TEST(stack_overflow_by_alloca_is_reported)
{
    check_overflow(&(struct overflow){much_alloca, 64 * 1024, "alloca", false});
    check_overflow(&(struct overflow){much_alloca, 32 * 1024, "alloca", true});
}

TEST(overflow_of_unnamed_fiber_is_reported_by_number)
{
    check_overflow(&(struct overflow){deep_recursion, 128 * 1024, NULL, true});
}

static void overflow_in_second_pool(void *arg)
{
    struct overflow fits = {much_alloca, 2 << 20, "fits", true};
    no_core_file();
    run_in_fiber(2, spawn_overflow, &fits);
    run_in_fiber(2, spawn_overflow, arg);
}

TEST(overflow_in_later_pool_is_reported)
{
    struct overflow overflow = {deep_recursion, 16 * 1024, "later", false};
    char err[CHECK_ERR];
    int status = check_child(overflow_in_second_pool, &overflow, err, sizeof err);
    check_report(status, err, "later", 16 * 1024);
}

/* Exits from a signal handler at once: TSan's _exit takes a second. */
static void leave(int status)
{
    syscall(SYS_exit_group, status);
}

/* --- neighbours ------------------------------------------------------------------------------ */

/* Fibers below and above the victim fill their stacks with a pattern. The test's own handler, which
 * replaces Weft's, checks the patterns at the moment of the fault. */
#define NEIGHBOURS 16
#define PATTERN_BYTES ((size_t)10 * 1024)
#define INTACT 43

static unsigned char *volatile patterns[NEIGHBOURS];
static atomic_int patterns_made;

static bool all_intact(void)
{
    for (int i = 0; i < NEIGHBOURS; i++) {
        for (size_t at = 0; at < PATTERN_BYTES; at++) {
            if (patterns[i][at] != (unsigned char)(i + 1)) {
                return false;
            }
        }
    }
    return true;
}

static void look_at_neighbours(int signal)
{
    (void)signal;
    leave(all_intact() ? INTACT : 1);
}

static void *be_neighbour(void *arg)
{
    int i = atomic_fetch_add(&patterns_made, 1);
    unsigned char *pattern = __builtin_alloca(PATTERN_BYTES);
    memset(pattern, i + 1, PATTERN_BYTES);
    patterns[i] = pattern;
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

static void *park_then_overflow(void *how)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return (void *)(uintptr_t)(*(unsigned (**)(void))how)();
}

static void *surround(void *arg)
{
    struct weft_fiber_opts opts = {.stack_bytes = 16 * 1024};
    struct sigaction ours = {.sa_handler = look_at_neighbours, .sa_flags = SA_ONSTACK};
    weft_fiber victim;
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (i == NEIGHBOURS / 2) {
            CHECK_EQ(weft_spawn(&victim, park_then_overflow, arg, &opts), 0);
            await_state(victim, WEFT_FIBER_WAITING);
        }
        CHECK_EQ(weft_spawn(NULL, be_neighbour, NULL, &opts), 0);
        await_count(&patterns_made, i + 1);
    }
    CHECK(all_intact());
    CHECK_EQ(sigaction(SIGSEGV, &ours, NULL), 0);
    CHECK_EQ(weft_fiber_unpark(victim), 0);
    CHECK_EQ(weft_join(victim, NULL, WEFT_FOREVER), 0);
    return NULL;
}

static void surround_in_child(void *how)
{
    run_in_fiber(1, surround, how);
}

TEST(overflow_leaves_neighbouring_stacks_intact)
{
    unsigned (*ways[])(void) = {deep_recursion, one_large_frame, much_alloca};
    for (int i = 0; i < 3; i++) {
        char err[CHECK_ERR];
        int status = check_child(surround_in_child, &ways[i], err, sizeof err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != INTACT) {
            check_fail(__FILE__, __LINE__, "way %d: status 0x%x, stderr:\n%s", i, (unsigned)status,
                       err);
        }
    }
}

/* --- a stack without a user ------------------------------------------------------------------- */

static void *own_frame(void *arg)
{
    (void)arg;
    return __builtin_frame_address(0);
}

/* The address of a stack outlives its fiber; the guard below the stack stays in place. */
static void *touch_free_stack(void *arg)
{
    struct weft_fiber_opts opts = {.stack_bytes = 16 * 1024};
    weft_fiber fiber;
    void *frame;
    CHECK_EQ(weft_spawn(&fiber, own_frame, NULL, &opts), 0);
    CHECK_EQ(weft_join(fiber, &frame, WEFT_FOREVER), 0);
    *((volatile char *)frame - 20 * 1024) = 1;
    return arg;
}

static void touch_in_child(void *arg)
{
    no_core_file();
    run_in_fiber(1, touch_free_stack, arg);
}

TEST(access_below_free_stack_blames_no_fiber)
{
    char err[CHECK_ERR];
    int status = check_child(touch_in_child, NULL, err, sizeof err);
    if (!WIFSIGNALED(status) || !strstr(err, "below a stack that no fiber uses")) {
        check_fail(__FILE__, __LINE__, "status 0x%x, stderr:\n%s", (unsigned)status, err);
    }
}

/* --- faults that are not stack overflows ------------------------------------------------------ */

#define CAUGHT 44

static char *nowhere; /* memory without access rights */

static void on_simple(int signal)
{
    leave(signal == SIGSEGV ? CAUGHT : 1);
}

static void on_detailed(int signal, siginfo_t *info, void *context)
{
    leave(signal == SIGSEGV && info->si_addr == nowhere && context ? CAUGHT : 1);
}

static void *write_nowhere(void *arg)
{
    *(volatile char *)nowhere = 1;
    return arg;
}

static void *send_signal(void *arg)
{
    raise(SIGSEGV);
    return arg;
}

enum before { NOTHING, SIMPLE, DETAILED, IGNORED };

struct fault {
    enum before before; /* the program's SIGSEGV disposition before its first pool */
    weft_fn cause;
    bool in_thread; /* on a plain thread; otherwise on a fiber */
};

static void fault_in_child(void *arg)
{
    const struct fault *fault = arg;
    struct sigaction action = {.sa_handler = SIG_DFL};
    if (fault->before == SIMPLE) {
        action.sa_handler = on_simple;
    } else if (fault->before == DETAILED) {
        action.sa_sigaction = on_detailed;
        action.sa_flags = SA_SIGINFO;
    } else if (fault->before == IGNORED) {
        action.sa_handler = SIG_IGN;
    }
    no_core_file();
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(nowhere != MAP_FAILED);
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    if (fault->in_thread) {
        weft_pool *pool = pool_open(NULL);
        fault->cause(NULL);
        pool_close(pool);
    } else {
        run_in_fiber(2, fault->cause, NULL);
    }
}

/* The report names the fiber, if a fiber caused the fault by a memory access. */
static int fault_status(enum before before, weft_fn cause, bool in_thread)
{
    struct fault fault = {before, cause, in_thread};
    char err[CHECK_ERR];
    int status = check_child(fault_in_child, &fault, err, sizeof err);
    const char *named = strstr(err, "weft: ");
    bool expected = cause == write_nowhere && !in_thread;
    if (expected !=
            (named && strncmp(named, "weft: bad access in fiber main #1.0, at 0x", 42) == 0) ||
        (named && strstr(named + 1, "weft: "))) {
        check_fail(__FILE__, __LINE__, "%s:\n%s", expected ? "not named" : "not ours", err);
    }
    return status;
}

TEST(other_fault_is_passed_to_previous_handler)
{
    for (int in_thread = 0; in_thread <= 1; in_thread++) {
        for (enum before before = SIMPLE; before <= DETAILED; before++) {
            int status = fault_status(before, write_nowhere, in_thread);
            CHECK(WIFEXITED(status));
            CHECK_EQ(WEXITSTATUS(status), CAUGHT);
        }
    }
}

TEST(other_fault_without_handler_kills_process)
{
    for (int in_thread = 0; in_thread <= 1; in_thread++) {
        int status = fault_status(NOTHING, write_nowhere, in_thread);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        status = fault_status(IGNORED, write_nowhere, in_thread); /* real ones cannot be ignored */
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}

static void on_mended(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE) != 0) {
        leave(1);
    }
}

static void *write_twice(void *arg)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(mprotect(nowhere, 4096, PROT_NONE), 0);
        write_nowhere(NULL);
    }
    return arg;
}

static void live_by_faults(void *arg)
{
    struct sigaction action = {.sa_sigaction = on_mended, .sa_flags = SA_SIGINFO};
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    run_in_fiber(1, write_twice, arg);
}

TEST(program_handling_faults_itself_gets_one_report)
{
    char err[CHECK_ERR];
    int status = check_child(live_by_faults, NULL, err, sizeof err);
    const char *named = strstr(err, "weft: bad access in fiber main");
    if (status != 0 || !named || strstr(named + 1, "weft: ")) {
        check_fail(__FILE__, __LINE__, "status 0x%x, stderr:\n%s", (unsigned)status, err);
    }
}

TEST(sent_sigsegv_keeps_previous_disposition)
{
    for (int in_thread = 0; in_thread <= 1; in_thread++) {
        int status = fault_status(NOTHING, send_signal, in_thread);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        status = fault_status(SIMPLE, send_signal, in_thread);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == CAUGHT);
        status = fault_status(IGNORED, send_signal, in_thread);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* --- the alternate stack ---------------------------------------------------------------------- */

static void *alternate_stack(void *out)
{
    CHECK_EQ(sigaltstack(NULL, out), 0);
    return NULL;
}

TEST(every_worker_has_alternate_signal_stack)
{
    stack_t seen[2];
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_call(pool, NULL, i, alternate_stack, &seen[i], WEFT_FOREVER), 0);
        CHECK(!(seen[i].ss_flags & SS_DISABLE));
    }
    CHECK(seen[0].ss_sp != seen[1].ss_sp);
    pool_close(pool);
}

TEST(alternate_signal_stack_of_caller_is_kept)
{
    static char mine[64 * 1024];
    stack_t before, own = {.ss_sp = mine, .ss_size = sizeof mine}, during, after;
    CHECK_EQ(sigaltstack(&own, &before), 0);
    run_in_fiber(1, alternate_stack, &during);
    CHECK(during.ss_sp == mine);
    CHECK_EQ(sigaltstack(NULL, &after), 0);
    CHECK(after.ss_sp == mine && !(after.ss_flags & SS_DISABLE));
    CHECK_EQ(sigaltstack(&before, NULL), 0);
}
