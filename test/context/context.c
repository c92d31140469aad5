/* The raw context switch, without a scheduler. */
#include "context/context.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "base/rand.h"
#include "check.h"
#include "context/sanitizer.h"

#define STACK_BYTES ((size_t)64 * 1024)
#define MAX_PARTIES 8

struct party {
    struct weft__context ctx;
    struct weft__san san;
    char *stack;
    void (*body)(struct party *self, void *pass);
    struct party *left;       /* the party that switched here */
    struct weft__asan *asan;  /* of the current thread */
    struct weft__asan thread; /* for a party that is a thread itself */
};

/* A party's first frame, like entry_<arch>.S for fibers. */
void party_entry(void);
void party_main(struct party *self) __attribute__((used));

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl party_entry\n"
        ".hidden party_entry\n"
        "party_entry:\n"
        ".cfi_startproc\n"
        ".cfi_undefined rip\n"
        "endbr64\n"
        "xorl %ebp, %ebp\n"
        "movq %rdx, %rdi\n"
        "callq party_main\n"
        "ud2\n"
        ".cfi_endproc\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl party_entry\n"
        ".hidden party_entry\n"
        "party_entry:\n"
        ".cfi_startproc\n"
        ".cfi_undefined x30\n"
        "hint #36\n"
        "mov x29, xzr\n"
        "mov x30, xzr\n"
        "mov x0, x2\n"
        "bl party_main\n"
        "brk #1\n"
        ".cfi_endproc\n");
#endif

static void *first_pass;

/* Every switch of these tests; returns the value passed by the party that switches back. */
static inline __attribute__((always_inline)) void *go(struct party *from, struct party *to,
                                                      void *pass)
{
    first_pass = pass;
    to->left = from;
    to->asan = from->asan;
    void *fake = weft__asan_leave(from->asan, to->stack, STACK_BYTES, false);
    weft__san_leave(&to->san);
    struct party *self = weft__context_switch(&from->ctx, &to->ctx, to);
    weft__asan_arrive(self->asan, fake);
    CHECK(self == from);
    return first_pass;
}

void party_main(struct party *self)
{
    weft__asan_arrive(self->asan, NULL);
    CHECK_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    self->body(self, first_pass);
    CHECK(!"a context returned from its body");
}

static void party_init(struct party *party, void (*body)(struct party *, void *))
{
    party->stack = aligned_alloc(4096, STACK_BYTES);
    CHECK(party->stack != NULL);
    party->body = body;
    weft__context_init(&party->ctx, party->stack + STACK_BYTES, party_entry);
    weft__san_create(&party->san, party->stack, STACK_BYTES);
    weft__asan_attach(party->stack, STACK_BYTES);
    weft__san_register_stack(party->stack, party->stack + STACK_BYTES);
}

static void party_deinit(struct party *party)
{
    void *dead = weft__san_detach(&party->san);
    weft__san_destroy(&dead);
    weft__asan_detach(party->stack, STACK_BYTES);
    free(party->stack);
}

static void thread_init(struct party *party)
{
    party->stack = NULL;
    weft__san_thread(&party->san);
    party->asan = &party->thread;
    weft__asan_enter_thread(&party->thread);
}

/* --- passing a value ------------------------------------------------------------ */

static void echo(struct party *self, void *pass)
{
    for (;;) {
        pass = go(self, self->left, (char *)pass + 1);
    }
}

TEST(switch_passes_value_to_entry_and_every_resume)
{
    struct party base, other;
    thread_init(&base);
    party_init(&other, echo);
    char *pass = NULL;
    for (int i = 0; i < 1000; i++) {
        pass = go(&base, &other, pass + 1);
        CHECK_EQ((intptr_t)pass, 2 * (i + 1));
    }
    party_deinit(&other);
}

static void check_alignment(struct party *self, void *pass)
{
    _Alignas(16) volatile double pair[2] = {1, 2};
    (void)pass;
    CHECK_EQ((uintptr_t)pair % 16, 0);
    char *frame = __builtin_frame_address(0);
    CHECK(frame > self->stack && frame < self->stack + STACK_BYTES);
    go(self, self->left, NULL);
}

TEST(context_starts_aligned_below_unaligned_stack_top)
{
    struct party base, other;
    thread_init(&base);
    for (size_t off = 0; off < 32; off++) {
        party_init(&other, check_alignment);
        weft__context_init(&other.ctx, other.stack + STACK_BYTES - off, party_entry);
        CHECK_EQ((uintptr_t)other.ctx.sp % 16, 0);
        CHECK((char *)other.ctx.sp <= other.stack + STACK_BYTES - off);
        go(&base, &other, NULL);
        party_deinit(&other);
    }
}

/* --- preserved state ------------------------------------------------------------- */

/* Makes the compiler assume that these are used and changed here. */
#define KEEP_INTEGERS(v)                                                                           \
    __asm__ volatile("" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]), "+r"(v[4]), "+r"(v[5]))
#if defined(__x86_64__)
#define KEEP_DOUBLES(v)                                                                            \
    __asm__ volatile("" : "+x"(v[0]), "+x"(v[1]), "+x"(v[2]), "+x"(v[3]), "+x"(v[4]), "+x"(v[5]))
#else
#define KEEP_DOUBLES(v)                                                                            \
    __asm__ volatile("" : "+w"(v[0]), "+w"(v[1]), "+w"(v[2]), "+w"(v[3]), "+w"(v[4]), "+w"(v[5]))
#endif

static struct party parties[MAX_PARTIES];
static unsigned party_count;
static struct weft__rand choice;
static long switches_left;

/* Switches to random parties, including its own thread, until the switches are used up. */
static inline __attribute__((always_inline)) void wander(struct party *self)
{
    struct party *to =
        switches_left > 0 ? &parties[weft__rand_next(&choice) % party_count] : parties;
    switches_left--;
    if (to != self) {
        go(self, to, NULL);
    }
}

static void keep_values(struct party *self)
{
    uint64_t id = (uint64_t)(self - parties) + 1;
    uint64_t a[6];
    double d[6];
    for (unsigned i = 0; i < 6; i++) {
        a[i] = id * 1000 + i;
        d[i] = (double)id / (i + 3);
    }
    for (uint64_t round = 0; switches_left > 0; round++) {
        KEEP_INTEGERS(a);
        KEEP_DOUBLES(d);
        wander(self);
        KEEP_INTEGERS(a);
        KEEP_DOUBLES(d);
        for (unsigned i = 0; i < 6; i++) {
            CHECK(a[i] == id * 1000 + i + round * (i + 1));
            CHECK(d[i] == (double)id / (i + 3));
            a[i] += i + 1;
        }
    }
}

static void keep_values_for_ever(struct party *self, void *pass)
{
    (void)pass;
    for (;;) {
        keep_values(self);
        go(self, parties, NULL);
    }
}

static void wander_all(void (*body)(struct party *, void *), void (*mine)(struct party *),
                       long switches)
{
    weft__rand_seed(&choice, check_seed());
    switches_left = switches;
    party_count = MAX_PARTIES;
    thread_init(&parties[0]);
    for (unsigned i = 1; i < party_count; i++) {
        party_init(&parties[i], body);
    }
    mine(&parties[0]);
    CHECK(switches_left <= 0);
    for (unsigned i = 1; i < party_count; i++) {
        party_deinit(&parties[i]);
    }
}

TEST(live_values_survive_any_order_of_switches)
{
    wander_all(keep_values_for_ever, keep_values, 200000);
}

/* A frame whose size is known only at run time is found by the frame pointer alone. */
static __attribute__((noinline)) void keep_dynamic(struct party *self)
{
    unsigned id = (unsigned)(self - parties) + 1;
    for (unsigned round = 1; switches_left > 0; round++) {
        size_t bytes = 16 + (id * 37 + round * 101) % 500;
        unsigned char *frame = __builtin_alloca(round % 50 == 0 ? 1 : bytes);
        if (round % 50 == 0) {
            return; /* before the allocas of one call fill the stack */
        }
        memset(frame, (int)(id + round), bytes);
        wander(self);
        for (size_t i = 0; i < bytes; i++) {
            CHECK_EQ(frame[i], (unsigned char)(id + round));
        }
    }
}

static void keep_dynamic_for_ever(struct party *self, void *pass)
{
    (void)pass;
    for (;;) {
        keep_dynamic(self);
        if (switches_left <= 0) {
            go(self, parties, NULL);
        }
    }
}

static void keep_dynamic_all(struct party *self)
{
    while (switches_left > 0) {
        keep_dynamic(self);
    }
}

TEST(variable_size_frames_survive_switches)
{
    wander_all(keep_dynamic_for_ever, keep_dynamic_all, 50000);
}

/* A leaf function may keep values below its stack pointer (the red zone); a signal handler must not
 * overwrite them. */
static atomic_long signals_seen;

static void on_signal(int signal)
{
    char noise[512];
    (void)signal;
    memset(noise, 0xaa, sizeof noise);
    __asm__ volatile("" ::"r"(noise) : "memory");
    atomic_fetch_add(&signals_seen, 1);
}

TEST(signals_are_safe_at_any_instruction_of_switch)
{
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    struct itimerval every = {{0, 97}, {0, 97}}, never = {{0, 0}, {0, 0}};
    CHECK(sigaction(SIGALRM, &ours, &before) == 0);
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    double end = check_seconds() + 0.1;
    while (check_seconds() < end || atomic_load(&signals_seen) == 0) {
        wander_all(keep_values_for_ever, keep_values, 20000);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(sigaction(SIGALRM, &before, NULL) == 0);
}

/* --- between threads --------------------------------------------------------------- */

static struct party traveller;
static pthread_barrier_t turn;

static void travel(struct party *self, void *pass)
{
    intptr_t stops = 0;
    long last = 0;
    for (;; pass = go(self, self->left, (void *)stops)) {
        long thread = syscall(SYS_gettid); /* pthread_self is const: its calls may be merged */
        CHECK(pass == (void *)stops);
        CHECK(thread != last);
        last = thread;
        stops++;
    }
}

#define STOPS 200

static void *carry(void *parity)
{
    struct party base;
    thread_init(&base);
    for (intptr_t i = 0; i < STOPS; i++) {
        if (i % 2 == (intptr_t)parity) {
            CHECK_EQ((intptr_t)go(&base, &traveller, (void *)i), i + 1);
        }
        pthread_barrier_wait(&turn);
    }
    weft__asan_leave_thread(&base.thread);
    return NULL;
}

TEST(context_resumes_on_other_thread)
{
    pthread_t other;
    party_init(&traveller, travel);
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&other, NULL, carry, (void *)1) == 0);
    carry((void *)0);
    CHECK(pthread_join(other, NULL) == 0);
    pthread_barrier_destroy(&turn);
    party_deinit(&traveller);
}

/* --- floating point ------------------------------------------------------------------ */

TEST(process_starts_with_default_control_words)
{
    CHECK(weft__fp_get().words == weft__fp_default().words);
}

/* fegetround is declared pure: the compiler must not reuse an earlier result. */
static int rounding(void)
{
    __asm__ volatile("" ::: "memory");
    return fegetround();
}

TEST(control_words_are_set_and_read_back)
{
    struct weft__fp_env before = weft__fp_get();
    int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (unsigned i = 0; i < 3; i++) {
        CHECK(fesetround(modes[i]) == 0);
        struct weft__fp_env changed = weft__fp_get();
        CHECK(changed.words != before.words);
        weft__fp_set(before);
        CHECK_EQ(rounding(), FE_TONEAREST);
        weft__fp_set(changed);
        CHECK_EQ(rounding(), modes[i]);
        weft__fp_set(before);
    }
    CHECK(weft__fp_get().words == before.words);
}

TEST(sticky_exception_flags_are_not_control_words)
{
    volatile double one = 1, three = 3, zero = 0, sink;
    sink = one / three; /* inexact */
    sink = one / zero;
    (void)sink;
    CHECK(weft__fp_get().words == weft__fp_default().words);
    feclearexcept(FE_ALL_EXCEPT);
}
