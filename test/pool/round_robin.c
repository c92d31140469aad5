/* Round-robin turns taken at the same moment, tested without relying on chance: processor
 * single-stepping lets another thread take a turn between any two instructions of the first. */
/* not under: asan tsan valgrind qemu */
#include <signal.h>

#include "pool/fixture.h"
#include "sched/pool.h"

#ifdef __x86_64__

enum { MEMBERS = 7 };

static weft_pool_set *pools;
static const weft_pool *members[MEMBERS];
static int picked[MEMBERS], steps;

static void pick(void)
{
    const weft_pool *next = weft__pool_set_next(pools);
    for (int i = 0; i < MEMBERS; i++) {
        picked[i] += next == members[i];
    }
}

/* Runs after each instruction while the trap flag is set; the handler itself runs with the flag
 * cleared. */
static void on_step(int signal)
{
    (void)signal;
    steps++;
    pick();
}

__attribute__((noinline)) static void set_trap_flag(bool on)
{
    uint64_t flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | 0x100 : flags & ~UINT64_C(0x100));
}

static int most(void)
{
    int n = 0;
    for (int i = 0; i < MEMBERS; i++) {
        n = picked[i] > n ? picked[i] : n;
    }
    return n;
}

static int least(void)
{
    int n = INT32_MAX;
    for (int i = 0; i < MEMBERS; i++) {
        n = picked[i] < n ? picked[i] : n;
    }
    return n;
}

/* No turn is given twice, and none is left out. */
TEST(round_robin_is_even_with_preemption_at_any_instruction)
{
    struct sigaction action = {.sa_handler = on_step};
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    CHECK_EQ(weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = MEMBERS}), 0);
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i] = weft_pool_set_member(pools, i);
    }
    for (int i = 0; i < 20; i++) {
        set_trap_flag(true);
        pick();
        set_trap_flag(false);
        CHECK(steps >= 5 * (i + 1));
        CHECK(most() - least() <= 1);
    }
    weft_pool_set_destroy(pools);
}

#else

TEST(round_robin_is_even_with_preemption_at_any_instruction)
{
    check_skip("single steps are made on x86_64 only");
}

#endif
