/* The context switch: three words per suspended context, nothing on its stack.
 *
 * The switch is inline. The compiler is told that every register is clobbered here, so it keeps
 * what it needs in the frame by itself, with unwind tables that stay right; only the resume address
 * (pc), the stack pointer (sp) and the frame pointer, which cannot be named as clobbered, are left
 * to save. A suspended context is therefore unwound from {pc, sp, fp} like any frame.
 *
 * It leaves by an indirect jump to a label after the jump of the suspended side. There is no call,
 * so the return predictor stays in step with the callers; all sides that resume at one switch site
 * share the jump's target.
 *
 * Control-flow integrity: the label carries endbr64 (IBT) or `bti j`. The shadow stack (SHSTK) is
 * not switched, and the objects do not claim it.
 *
 * Floating point: the control words (rounding, exception masks) are not switched; a fiber that
 * changes them says so (fp_env), and weft__fp_* saves and restores them for it.
 */
#ifndef WEFT_CONTEXT_CONTEXT_H
#define WEFT_CONTEXT_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

struct weft__context {
    void *sp;
    void *pc;
    void *fp;
};

/* Prepares `ctx` to start at the bare `entry` on a stack whose highest usable byte is below
 * `top`. */
static inline void weft__context_init(struct weft__context *ctx, char *top, void (*entry)(void))
{
    /* Atomic, because other threads read it for a prefetch. */
    __atomic_store_n(&ctx->sp, (void *)((uintptr_t)top & ~(uintptr_t)15), __ATOMIC_RELAXED);
    ctx->pc = (void *)entry;
    ctx->fp = NULL;
}

/* The first instruction of a new context that has a C function (entry_<arch>.S). Unwinders stop
 * here. */
void weft__context_entry(void);

/* Prepares `ctx` to call fn(pass), which must not return. The entry finds fn in the frame pointer
 * and clears that. */
static inline void weft__context_init_main(struct weft__context *ctx, char *top,
                                           void (*fn)(void *pass))
{
    weft__context_init(ctx, top, weft__context_entry);
    ctx->fp = (void *)fn;
}

/* Suspends into `from` and resumes `to`. `pass` arrives there as the result of its own switch, or
 * as the argument of its entry. */
static inline __attribute__((always_inline)) void *
weft__context_switch(struct weft__context *from, const struct weft__context *to, void *pass)
{
#if defined(__x86_64__)
    void *rax;
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rsp, 0(%%rdi)\n\t"
                     "movq %%rax, 8(%%rdi)\n\t"
                     "movq %%rbp, 16(%%rdi)\n\t"
                     "movq 0(%%rsi), %%rsp\n\t"
                     "movq 16(%%rsi), %%rbp\n\t"
                     "jmpq *8(%%rsi)\n"
                     "1:\n\t"
                     "endbr64\n\t"
                     : "+D"(from), "+S"(to), "+d"(pass), "=&a"(rax)
                     :
                     : "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc",
                       "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#ifdef __AVX512F__
                       ,
                       "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
                       "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0",
                       "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#endif
    );
    return pass;
#elif defined(__aarch64__)
    register struct weft__context *x0 __asm__("x0") = from;
    register const struct weft__context *x1 __asm__("x1") = to;
    register void *x2 __asm__("x2") = pass;
    __asm__ volatile("adr x9, 1f\n\t"
                     "mov x10, sp\n\t"
                     "stp x10, x9, [x0]\n\t"
                     "str x29, [x0, #16]\n\t"
                     "ldp x10, x9, [x1]\n\t"
                     "ldr x29, [x1, #16]\n\t"
                     "mov sp, x10\n\t"
                     "br x9\n"
                     "1:\n\t"
                     "hint #36\n\t" /* bti j */
                     : "+r"(x0), "+r"(x1), "+r"(x2)
                     :
                     : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
                       "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25",
                       "x26", "x27", "x28", "x30", "cc", "memory", "v0", "v1", "v2", "v3", "v4",
                       "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31"
#ifdef __ARM_FEATURE_SVE
                       ,
                       "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11",
                       "p12", "p13", "p14", "p15"
#endif
    );
    return x2;
#else
#error "Weft runs on x86_64 and aarch64"
#endif
}

/* Returns its argument, by a jump instead of a return. For the last call of a function, so that the
 * jump goes to that function's caller.
 *
 * A processor predicts returns with an internal stack of the calls it has seen. A fiber that was
 * resumed by another fiber returns, as far as the processor knows, to where that other fiber was
 * called from: a misprediction, which costs more than the rest of a switch. Jumps are predicted by
 * what was executed before, which distinguishes fibers. But a jump takes nothing from the internal
 * stack, and the next return is then off by one; so the jump is used only if the other fiber had
 * another return address. Fibers that all run the same code return normally, and that is predicted,
 * with all that follows.
 *
 * After a system call nothing can be off: the kernel's calls, deeper than the internal stack, have
 * replaced ours. So a fiber that sends or receives always returns by a jump.
 *
 * On aarch64 this is a plain return: with BTI a jump may not go where a return may. The same holds
 * for clang, which makes no jump of the last call of a function whose locals' addresses have
 * escaped; gcc does if it is told that the callee reads no memory (const). */
#if defined(__x86_64__) && !defined(__clang__) && !defined(WEFT_EXPLORE)
int weft__context_return(int result) __attribute__((const));
long weft__context_return_long(long result) __attribute__((const));
#else
static inline int weft__context_return(int result)
{
    return result;
}

static inline long weft__context_return_long(long result)
{
    return result;
}
#endif

/* The floating-point control words: SSE and x87 on x86_64, FPCR on aarch64. */
struct weft__fp_env {
    uint64_t words;
};

static inline struct weft__fp_env weft__fp_get(void)
{
    struct weft__fp_env env;
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    env.words = (mxcsr & ~0x3fu) | (uint64_t)x87 << 32; /* without the sticky exception flags */
#else
    __asm__ volatile("mrs %0, fpcr" : "=r"(env.words));
#endif
    return env;
}

static inline void weft__fp_set(struct weft__fp_env env)
{
#if defined(__x86_64__)
    uint32_t mxcsr = (uint32_t)env.words;
    uint16_t x87 = (uint16_t)(env.words >> 32);
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(x87));
#else
    __asm__ volatile("msr fpcr, %0" ::"r"(env.words));
#endif
}

/* The pair for a switch: straight to memory and back, on x86 including the sticky exception
 * flags. */
static inline void weft__fp_save(struct weft__fp_env *env)
{
#if defined(__x86_64__)
    __asm__ volatile("stmxcsr (%1)\n\tfnstcw 4(%1)" : "+m"(*env) : "r"(env));
#else
    *env = weft__fp_get();
#endif
}

static inline void weft__fp_load(const struct weft__fp_env *env)
{
#if defined(__x86_64__)
    __asm__ volatile("ldmxcsr (%0)\n\tfldcw 4(%0)" ::"r"(env), "m"(*env));
#else
    weft__fp_set(*env);
#endif
}

/* What a process starts with. */
static inline struct weft__fp_env weft__fp_default(void)
{
#if defined(__x86_64__)
    return (struct weft__fp_env){.words = 0x1f80u | (uint64_t)0x37f << 32};
#else
    return (struct weft__fp_env){.words = 0};
#endif
}

#endif
