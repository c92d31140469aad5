/* The processor: pause instruction, and the number of CPUs that this process may use. */
#ifndef WEFT_BASE_CPU_H
#define WEFT_BASE_CPU_H

#ifdef WEFT_EXPLORE
void weft__cpu_pause(void);
#else
/* Hints to the core that this is a busy loop. */
static inline void weft__cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` is a no-op on most cores; isb really waits */
#endif
}
#endif

/* The CPU limit of the process's cgroups, in whole CPUs rounded up; 0: no limit. `cgroups` is
 * /proc/self/cgroup and `mount` the mount point of the hierarchies; tests pass others. */
unsigned weft__cpu_quota(const char *cgroups, const char *mount);

/* The number of CPUs in the affinity mask, limited by the cgroup's CPU quota (v2 and v1); at least
 * 1. */
unsigned weft__cpu_usable(void);

#endif
