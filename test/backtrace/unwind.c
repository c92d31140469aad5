/* Backtraces of waiting fibers, taken from a copy of their stacks, and of running fibers, taken in
 * a signal handler. */
#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#include "backtrace/sample.h"
#include "backtrace/unwind.h"
#include "context/sanitizer.h"
#include "pool/fixture.h"
#include "sched/pool.h"
#include "task/slab.h"

#define DEPTH 10
#include "context/deep.h"
#define MOST 64

static atomic_int hogging;
static atomic_bool release;

__attribute__((noinline)) static long park_here(void)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    long result = 1;
    __asm__ volatile("" : "+r"(result)); /* no tail call */
    return result;
}

__attribute__((noinline)) static long hog_here(void)
{
    atomic_fetch_add(&hogging, 1);
    long turns = 0;
    while (!atomic_load_explicit(&release, memory_order_relaxed)) {
        turns++;
    }
    __asm__ volatile("" : "+r"(turns));
    return turns;
}

struct names {
    int count;
    char names[MOST][96];
};

static void name_all(struct names *out, void *const *pcs, int count)
{
    out->count = count;
    for (int i = 0; i < count; i++) {
        weft__symbol_format(pcs[i], i > 0, out->names[i], sizeof out->names[i]);
    }
}

static int named(const struct names *names, const char *name)
{
    int found = 0;
    size_t length = strlen(name);
    for (int i = 0; i < names->count; i++) {
        found += strncmp(names->names[i], name, length) == 0 && names->names[i][length] == '+';
    }
    return found;
}

static void check_names(const struct names *names, const char *innermost)
{
    bool right = names->count > DEPTH && named(names, innermost) == 1 &&
                 named(names, "deeper") == DEPTH && named(names, "call_deep") == 1 &&
                 named(names, "weft__fiber_main") == 1 &&
                 strncmp(names->names[names->count - 1], "weft__context_entry+", 20) == 0;
    for (int i = 0; i < names->count && !right; i++) {
        printf("#%d %s\n", i, names->names[i]);
    }
    fflush(stdout);
    CHECK(right);
}

static void end_all(weft_pool *pool)
{
    atomic_store(&release, true);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    atomic_store(&release, false);
    atomic_store(&hogging, 0);
}

TEST(waiting_fiber_unwinds_to_its_entry)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    long (*innermost)(void) = park_here;
    weft_fiber fiber;
    void *pcs[MOST];
    struct names names;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, call_deep, &innermost, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    int n = weft__unwind_waiting(weft__slab_find((uint32_t)fiber), pcs, MOST);
    if (weft__unwind_works()) {
        name_all(&names, pcs, n);
        check_names(&names, "park_here");
        CHECK_EQ(named(&names, "weft_fiber_park"), 1);
        CHECK_EQ(weft__unwind_waiting(weft__slab_find((uint32_t)fiber), pcs, 3), 3);
    } else {
        CHECK_EQ(n, 0);
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft__unwind_waiting(weft__slab_find((uint32_t)fiber), pcs, MOST), -EAGAIN);
    end_all(pool);
}

struct dive {
    int depth;
    weft_fiber fiber;
};

static void *dive(void *arg)
{
    long result = deeper(((struct dive *)arg)->depth, park_here);
    __asm__ volatile("" : "+r"(result));
    return NULL;
}

static void take_waiting(weft_fiber fiber, struct weft__stack_sample *stack_sample)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK(weft__task_hold(task));
    weft__stack_sample_copy_held(stack_sample, task);
    CHECK(!weft__task_unhold(task));
}

TEST(identical_stacks_are_recognised_and_others_are_not)
{
    static struct weft__unwind_cache unwind_cache;
    static struct weft__stack_sample stack_sample;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    struct dive dives[40];
    void *pcs[MOST], *again[MOST];
    for (int i = 0; i < 40; i++) {
        dives[i].depth = 1 + i % 20;
        CHECK_EQ(weft_pool_spawn(pool, &dives[i].fiber, dive, &dives[i], NULL), 0);
    }
    for (int i = 0; i < 40 && weft__unwind_works(); i++) {
        struct names names;
        take_waiting(dives[i].fiber, &stack_sample);
        int n = weft__stack_sample_unwind(&stack_sample, &unwind_cache, pcs, MOST);
        CHECK_EQ(weft__stack_sample_unwind(&stack_sample, NULL, again, MOST), n);
        CHECK_EQ(memcmp(pcs, again, (size_t)n * sizeof *pcs), 0);
        name_all(&names, pcs, n);
        CHECK_EQ(named(&names, "deeper"), dives[i].depth);
    }
    CHECK_EQ(unwind_cache.next, weft__unwind_works() ? 20 : 0);
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(weft_fiber_unpark(dives[i].fiber), 0);
        CHECK_EQ(weft_join(dives[i].fiber, NULL, WEFT_FOREVER), 0);
    }
    end_all(pool);
}

TEST(running_fiber_is_sampled_by_signal)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    long (*innermost)(void) = hog_here;
    void *pcs[MOST];
    struct names names;
    CHECK_EQ(weft_pool_spawn(pool, NULL, call_deep, &innermost, NULL), 0);
    await_count(&hogging, 1);
    int n;
    do { /* a loaded machine may not give it the CPU in time */
        n = weft__unwind_running(&pool->workers[0], pcs, MOST);
    } while (n == -ETIMEDOUT && !WEFT__TSAN); /* which delays signals until the next call */
    if (n >= 0 && weft__unwind_works()) {
        name_all(&names, pcs, n);
        check_names(&names, "hog_here");
    }
    struct sigaction action;
    CHECK_EQ(sigaction(SIGURG, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    end_all(pool);
}

__attribute__((noinline)) static long hog_deaf(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    long turns = hog_here();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return turns;
}

TEST(unresponsive_worker_sample_times_out)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    long (*innermost)(void) = hog_deaf;
    void *pcs[MOST];
    CHECK_EQ(weft_pool_spawn(pool, NULL, call_deep, &innermost, NULL), 0);
    await_count(&hogging, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft__unwind_running(&pool->workers[0], pcs, MOST), -ETIMEDOUT);
    }
    end_all(pool); /* the signals arrive now, without effect */
}

TEST(worker_without_fiber_is_not_sampled)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    await_idle(pool);
    void *pcs[MOST];
    int n;
    do {
        n = weft__unwind_running(&pool->workers[0], pcs, MOST);
    } while (n == -ESRCH || (n == -ETIMEDOUT && !WEFT__TSAN)); /* its thread may not exist yet */
    CHECK(n == -EAGAIN || n == -ETIMEDOUT);
    end_all(pool);
}

static void ignore_signal(int signal)
{
    (void)signal;
}

TEST(sampling_leaves_signal_used_by_program_alone)
{
    struct sigaction used = {.sa_handler = ignore_signal}, before, after;
    CHECK_EQ(sigaction(SIGURG, &used, &before), 0);
    CHECK_EQ(weft__sample_begin(0), -EBUSY);
    CHECK_EQ(sigaction(SIGURG, &before, &after), 0);
    CHECK(after.sa_handler == ignore_signal);
    CHECK_EQ(weft__sample_begin(SIGKILL), -EINVAL);
    CHECK_EQ(weft__sample_begin(-1), -EINVAL);
    CHECK_EQ(weft__sample_begin(SIGRTMIN), 0);
    CHECK_EQ(weft__sample(getpid(), WEFT_NO_FIBER, 0, NULL), -ETIMEDOUT); /* no worker: no output */
    weft__sample_end();
    CHECK_EQ(sigaction(SIGRTMIN, NULL, &after), 0);
    CHECK(after.sa_handler != SIG_DFL); /* it may still come */
}

/* Stacks of zeros, of ones, of invalid pointers and of pointers to themselves. */
TEST(garbage_stack_ends_backtrace_safely)
{
    static struct weft__stack_sample stack_sample;
    void *pcs[MOST];
    uint64_t seed = check_seed();
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof stack_sample.stack / sizeof *stack_sample.stack; i++) {
            uint32_t kind = dice(&seed) % 5;
            stack_sample.stack[i] = kind == 0   ? 0
                                    : kind == 1 ? UINT64_MAX
                                    : kind == 2 ? (uint64_t)park_here + dice(&seed) % 4096
                                    : kind == 3 ? (uint64_t)&stack_sample.stack[dice(&seed) % 8192]
                                                : (uint64_t)dice(&seed) << 32 | dice(&seed);
        }
        for (int i = 0; i < WEFT__REGS; i++) {
            stack_sample.regs[i] = stack_sample.stack[dice(&seed) % 8192];
        }
        stack_sample.regs[WEFT__REG_PC] = (uint64_t)hog_here + dice(&seed) % 64;
        stack_sample.regs[WEFT__REG_SP] = (uint64_t)&stack_sample.stack[dice(&seed) % 8192];
        stack_sample.first = (uint64_t)stack_sample.stack;
        stack_sample.bytes = sizeof stack_sample.stack;
        CHECK(weft__stack_sample_unwind(&stack_sample, NULL, pcs, MOST) <= MOST);
    }
}

/* --- uncertain names -------------------------------------------------------------------------- */

static int park_in_comparison(const void *a, const void *b)
{
    static bool parked;
    if (!parked) {
        parked = true;
        park_here();
    }
    return *(const char *)a - *(const char *)b;
}

/* The C library's own functions lie in between: those that are not exported have no symbol in a
 * stripped library. */
static void *sort(void *arg)
{
    char letters[] = "stripped";
    qsort(letters, sizeof letters - 1, 1, park_in_comparison);
    return arg;
}

/* Is it "libx.so+0x..."? If it names an exported function, is the address within that function? */
static bool is_right(const void *pc, const char *text)
{
    const char *plus = strchr(text, '+'), *slash;
    char name[160];
    Dl_info info;
    void *entry = NULL; /* in the symbol table */
    CHECK(plus != NULL);
    snprintf(name, sizeof name, "%.*s", (int)(plus - text), text);
    if (dladdr(pc, &info) && (slash = strrchr(info.dli_fname, '/')) &&
        strcmp(slash + 1, name) == 0) {
        return true;
    }
    const void *start = dlsym(RTLD_DEFAULT, name);
    if (!start || !dladdr1(start, &info, &entry, RTLD_DL_SYMENT) || !entry) {
        return true;
    }
    const ElfW(Sym) *symbol = entry;
    return symbol->st_size == 0 || strtoull(plus + 1, NULL, 16) <= symbol->st_size;
}

TEST(function_without_symbol_does_not_get_previous_name)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    weft_fiber fiber;
    void *pcs[MOST];
    CHECK_EQ(weft_pool_spawn(pool, &fiber, sort, NULL, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    int n = weft__unwind_waiting(weft__slab_find((uint32_t)fiber), pcs, MOST);
    for (int i = 1; i < n; i++) {
        char text[160];
        weft__symbol_format(pcs[i], true, text, sizeof text);
        if (!is_right(pcs[i], text)) {
            check_fail(__FILE__, __LINE__, "frame %d is not in %s", i, text);
        }
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    end_all(pool);
}
