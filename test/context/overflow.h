/* Ways to overflow a stack, for child processes that are meant to die from it. */
#ifndef WEFT_TEST_CONTEXT_OVERFLOW_H
#define WEFT_TEST_CONTEXT_OVERFLOW_H

#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <weft/weft.h>

#include "check.h"
#include "context/sanitizer.h"

/* ASan may keep frames of up to 64 KiB on its own heap. */
#define ONE_FRAME (WEFT__ASAN ? 256 * 1024 : 64 * 1024)

/* Recurses until it is `bytes` below `from`, which is in the first frame, and fills the stack it
 * passes. */
__attribute__((noinline, unused)) static unsigned recurse_below(const char *from, size_t bytes)
{
    unsigned char *frame = __builtin_alloca(200); /* never on ASan's heap */
    memset(frame, 0x77, 200);
    __asm__ volatile("" ::"r"(frame) : "memory");
    if ((size_t)(from - (const char *)__builtin_frame_address(0)) < bytes) {
        frame[0] = (unsigned char)recurse_below(from, bytes);
    }
    return frame[0] + 1u;
}

__attribute__((noinline, unused)) static unsigned deep_recursion(void)
{
    return recurse_below(__builtin_frame_address(0), SIZE_MAX);
}

__attribute__((noinline, unused)) static unsigned one_large_frame(void)
{
    unsigned char frame[ONE_FRAME];
    frame[0] = 1;
    __asm__ volatile("" ::"r"(frame) : "memory"); /* forces all of it to exist */
    return frame[ONE_FRAME - 1];
}

__attribute__((noinline, unused)) static unsigned much_alloca(void)
{
    unsigned sum = 0;
    for (volatile int i = 0; i < 1000; i++) {
        volatile unsigned char *some = __builtin_alloca(1000);
        some[0] = (unsigned char)i;
        sum += some[0];
    }
    return sum;
}

/* For a child that is meant to crash. */
__attribute__((unused)) static void no_core_file(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

/* Checks that the child died with a report for this fiber; returns the high-water mark in the
 * report. */
__attribute__((unused)) static size_t check_report(int status, const char *err, const char *fiber,
                                                   size_t stack_bytes)
{
    char name[64], size[64];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    snprintf(name, sizeof name, "stack overflow in fiber %s #", fiber);
    snprintf(size, sizeof size, ": stack of %zu bytes, high-water mark ", stack_bytes);
    const char *at = strstr(err, name), *mark = strstr(err, size);
    if (!WIFSIGNALED(status) || !at || !mark) {
        check_fail(__FILE__, __LINE__, "status 0x%x, stderr:\n%s", (unsigned)status, err);
    }
    CHECK_EQ(WTERMSIG(status), SIGSEGV);
    size_t high_water = strtoul(mark + strlen(size), NULL, 10);
    CHECK(high_water > 0 && high_water <= stack_bytes && high_water % page == 0);
    return high_water;
}

#endif
