/* A unit test is one C file that includes this header and defines tests: TEST(name) { ... }.
 *
 * This header contains main: it runs every test in the order of definition, or those named on the
 * command line, and prints a line for each. The first failed CHECK prints its location and aborts
 * the program, in any thread or fiber, so that a debugger or a core file shows that very moment.
 *
 *   WEFT_SEED=N     the seed that check_seed returns; by default from the clock, and printed
 *   WEFT_CHAOS=N    seed of the delays in a build that has them; stress tests set it themselves
 *   WEFT_STRESS=P   how much check_scale repeats, in percent; by default the build's setting
 *
 * A program that is not a list of tests (test/soak) defines CHECK_OWN_MAIN before the include.
 *
 * The head of a test file (its first 30 lines) may contain, each on a separate line:
 *   labels: valgrind       in a comment: more ctest labels
 *   timeout: 1800          in a comment: seconds, instead of 900
 *   not under: asan qemu   in a comment: kinds of build that leave the file out
 *                          (asan, tsan, valgrind, qemu, chaos)
 *   serial                 in a comment: no other test may run at the same time
 */
#ifndef WEFT_TEST_CHECK_H
#define WEFT_TEST_CHECK_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CHECK_STRESS
#define CHECK_STRESS 100 /* percent */
#endif

#define CHECK_ERR                                                                                  \
    16384 /* bytes of a child's output, with enough space for reports that were not requested */

#define CHECK_SKIPPED 77 /* the exit status that ctest shows as "Skipped" */

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            check_fail(__FILE__, __LINE__, "CHECK(%s)", #cond);                                    \
        }                                                                                          \
    } while (0)

/* For integers up to 64 bits; both values are printed. */
#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        long long check_a_ = (long long)(a), check_b_ = (long long)(b);                            \
        if (check_a_ != check_b_) {                                                                \
            check_fail(__FILE__, __LINE__, "CHECK_EQ(%s, %s): %lld, %lld", #a, #b, check_a_,       \
                       check_b_);                                                                  \
        }                                                                                          \
    } while (0)

#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        const char *check_a_ = (a), *check_b_ = (b);                                               \
        if (strcmp(check_a_, check_b_) != 0) {                                                     \
            check_fail(__FILE__, __LINE__, "CHECK_STR(%s, %s): \"%s\", \"%s\"", #a, #b, check_a_,  \
                       check_b_);                                                                  \
        }                                                                                          \
    } while (0)

#define TEST(name)                                                                                 \
    static void check_run_##name(void);                                                            \
    __attribute__((constructor)) static void check_add_##name(void)                                \
    {                                                                                              \
        static struct check_case one = {#name, check_run_##name, NULL};                            \
        check_add(&one);                                                                           \
    }                                                                                              \
    static void check_run_##name(void)

struct check_case {
    const char *name;
    void (*run)(void);
    struct check_case *next;
};

static struct check_case *check_first, **check_last = &check_first;

__attribute__((unused)) static void check_add(struct check_case *one)
{
    *check_last = one;
    check_last = &one->next;
}

/* Uses little stack, and no streams: it may run in a fiber of 16 KiB. */
__attribute__((noreturn, cold, format(printf, 3, 4), unused)) static void
check_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s:%d: failed: ", file, line);
    va_list args;
    va_start(args, format);
    n += vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    if (n > (int)sizeof text - 2) {
        n = (int)sizeof text - 2;
    }
    text[n++] = '\n';
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {
        abort();
    }
    abort();
}

/* Ends the whole program as skipped: the machine lacks the tested feature. */
__attribute__((noreturn, unused)) static void check_skip(const char *why)
{
    printf("skipped: %s\n", why);
    fflush(stdout);
    _exit(CHECK_SKIPPED);
}

/* The seed of this run; the same for every call. */
__attribute__((unused)) static uint64_t check_seed(void)
{
    static uint64_t seed;
    static bool known;
    if (!known) {
        const char *text = getenv("WEFT_SEED");
        if (text != NULL && *text != '\0') {
            seed = strtoull(text, NULL, 0);
        } else {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            seed = ((uint64_t)now.tv_sec * 1000000007U) ^ (uint64_t)now.tv_nsec ^
                   ((uint64_t)getpid() << 40);
        }
        known = true;
        printf("seed: WEFT_SEED=%" PRIu64 "\n", seed);
        fflush(stdout);
    }
    return seed;
}

/* The number of repetitions in this run, in percent of the normal number. */
__attribute__((unused)) static long check_stress(void)
{
    const char *text = getenv("WEFT_STRESS");
    long percent = text != NULL ? strtol(text, NULL, 0) : CHECK_STRESS;
    return percent > 0 ? percent : CHECK_STRESS;
}

/* n repetitions in a normal run, more or fewer in this one, at least one. */
__attribute__((unused)) static long check_scale(long n)
{
    long percent = check_stress();
    long scaled = n / 100 * percent + n % 100 * percent / 100;
    return scaled > 0 ? scaled : 1;
}

__attribute__((unused)) static double check_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Runs fn(arg) in a child process and returns its wait status. The child's stderr is returned in
 * `err`, truncated and zero-terminated; a child that returns from fn exits with 0. */
__attribute__((unused)) static int check_child(void (*fn)(void *), void *arg, char *err,
                                               size_t size)
{
    int ends[2], status;
    fflush(NULL);
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        fn(arg);
        fflush(NULL);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    char rest[512];
    for (;;) {
        bool room = size > used + 1;
        ssize_t n = read(ends[0], room ? err + used : rest, room ? size - used - 1 : sizeof rest);
        if (n <= 0) {
            break;
        }
        used += room ? (size_t)n : 0;
    }
    if (size > 0) {
        err[used] = '\0';
    }
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* Removes hog reports from a text: on a busy machine a fiber may be late through no fault of its
 * own. */
__attribute__((unused)) static char *check_without_hogs(char *text)
{
    char *hog;
    while ((hog = strstr(text, "weft: hog: "))) {
        char *rest = strchr(hog, '\n');
        while (rest && rest[1] == ' ') { /* its other lines are indented */
            rest = strchr(rest + 1, '\n');
        }
        memmove(hog, rest ? rest + 1 : "", rest ? strlen(rest + 1) + 1 : 1);
    }
    return text;
}

#ifndef CHECK_OWN_MAIN

static bool check_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return argc < 2;
}

int main(int argc, char **argv)
{
    int ran = 0;
#ifdef CHECK_CHAOS
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, check_seed() % 1000000007U);
    setenv("WEFT_CHAOS", seed, 0);
#endif
    for (struct check_case *one = check_first; one != NULL; one = one->next) {
        if (check_wanted(one->name, argc, argv)) {
            printf("test %s\n", one->name);
            fflush(stdout);
            double start = check_seconds();
            one->run();
            printf("ok   %s (%.0f ms)\n", one->name, (check_seconds() - start) * 1e3);
            fflush(stdout);
            ran++;
        }
    }
    if (ran == 0) {
        fprintf(stderr, "%s: no such test; there are:\n", argv[0]);
        for (struct check_case *one = check_first; one != NULL; one = one->next) {
            fprintf(stderr, "  %s\n", one->name);
        }
        return 2;
    }
    return 0;
}

#endif /* CHECK_OWN_MAIN */

#endif
