/* The raw switch between two contexts without a scheduler: lean, as fibers switch by default, and
 * full, with the FP control words, as fibers with fp_env switch.
 *
 * The switch is inline and saves only the values that the surrounding code needs, which in an empty
 * loop is nothing. Here both sides keep six values alive across it, as many as a called switch
 * would save.
 */
#include "../measure.h"

#include "context/context.h"

enum { STACK_BYTES = 16384, ROUNDS = 50000000 };

static struct weft__context base, other;

/* Makes the compiler assume that the six values are used and changed here. */
#define TOUCH(v)                                                                                   \
    __asm__ volatile("" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]), "+r"(v[4]), "+r"(v[5]))

static void answer_lean(void)
{
    long live[6] = {0};
    for (;;) {
        TOUCH(live);
        weft__context_switch(&other, &base, NULL);
    }
}

static void answer_full(void)
{
    struct weft__fp_env env = {0};
    long live[6] = {0};
    for (;;) {
        TOUCH(live);
        weft__fp_save(&env);
        weft__context_switch(&other, &base, NULL);
        weft__fp_load(&env);
    }
}

/* The other side is entered by a jump: the stack pointer is set to where a call would have left
 * it. */
static void start_other(void (*answer)(void))
{
    static char stack[STACK_BYTES] __attribute__((aligned(16)));
    weft__context_init(&other, stack + sizeof stack, answer);
    other.sp = (char *)other.sp - sizeof(void *);
}

static __attribute__((noinline)) double lean(void)
{
    long live[6] = {0};
    start_other(answer_lean);
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        TOUCH(live);
        weft__context_switch(&base, &other, NULL);
    }
    return ns_since(start) / ROUNDS / 2;
}

static __attribute__((noinline)) double full(void)
{
    struct weft__fp_env env = {0};
    long live[6] = {0};
    start_other(answer_full);
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        TOUCH(live);
        weft__fp_save(&env);
        weft__context_switch(&base, &other, NULL);
        weft__fp_load(&env);
    }
    return ns_since(start) / ROUNDS / 2;
}

int main(void)
{
    report("weft", "switch", "", lean(), "ns/switch");
    report("weft", "switch_full", "", full(), "ns/switch");
}
