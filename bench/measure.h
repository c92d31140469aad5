/* The parts that every C and C++ benchmark program needs: a clock, resident memory, pinning, and
 * the one line of output per result that bench/compare reads: "peer workload value unit". */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double ns_since(uint64_t start)
{
    return (double)(now_ns() - start);
}

static inline double resident_bytes(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2)
        abort();
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Pins the calling thread. Cross-thread programs put the poster on CPU 1 and the worker on CPU
 * 0. */
static inline void pin_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static inline void report(const char *peer, const char *workload, const char *suffix, double value,
                          const char *unit)
{
    printf("%s %s%s %.3f %s\n", peer, workload, suffix, value, unit);
    fflush(stdout);
}

static inline int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Prints the median and the 99th percentile of n latencies in nanoseconds, as "workload" and
 * "workload_p99". Sorts in place. */
static inline void report_latency(const char *peer, const char *workload, uint64_t *ns, size_t n)
{
    qsort(ns, n, sizeof *ns, by_value);
    report(peer, workload, "", (double)ns[n / 2] / 1e3, "us");
    report(peer, workload, "_p99", (double)ns[n * 99 / 100] / 1e3, "us");
}

#endif
