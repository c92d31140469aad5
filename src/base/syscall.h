/* A system call without the C library: no cancellation point, no errno, no shuffling of registers by a function that takes
 * any number of arguments. For the few that are made for every message. */
#ifndef WEFT_BASE_SYSCALL_H
#define WEFT_BASE_SYSCALL_H

#include <sys/syscall.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <errno.h>
#include <unistd.h>
#endif

/* The result, or a negative errno. */
static inline long weft__syscall6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory", "cc");
    return number;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
#else
    long result = syscall(number, a, b, c, d, e, f);
    return result < 0 ? -errno : result;
#endif
}

#endif
