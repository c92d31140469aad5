/* The processor: pauses, and how many CPUs this process may use. */
#ifndef WEFT_BASE_CPU_H
#define WEFT_BASE_CPU_H

#ifdef WEFT_EXPLORE
void weft__cpu_pause(void);
#else
/* Tells the core that this is a busy loop. */
static inline void weft__cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` is a no-op on most cores; isb really waits */
#endif
}
#endif

/* What the process's cgroups allow, in whole CPUs rounded up; 0: no limit. `cgroups` is
 * /proc/self/cgroup and `mount` where the hierarchies are mounted; tests give others. */
unsigned weft__cpu_quota(const char *cgroups, const char *mount);

/* CPUs in the affinity mask, cut by the cgroup's CPU quota (v2 and v1); at least 1. */
unsigned weft__cpu_usable(void);

#endif
