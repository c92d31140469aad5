/* The cost of another process: its CPU time, and the part that it spends outside the kernel.
 *
 * The sum is exact: the process's CPU clock is kept in nanoseconds, over all its threads, including
 * ended threads. The split of /proc/PID/stat is not exact: it scales that sum by where the clock
 * tick found the process, 250 times a second, and a good server is found outside the kernel only a
 * few times. So this code samples its threads, with one perf timer per thread that runs while the
 * thread runs. Interrupts wait while the kernel has them off, as on its way back from a system
 * call: each call makes a part of its cost appear outside the kernel, for all servers alike.
 */
#ifndef BENCH_LOAD_CPU_H
#define BENCH_LOAD_CPU_H

#include "../measure.h" /* first: _GNU_SOURCE */

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static inline double cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) {
        fprintf(stderr, "the server has ended\n");
        exit(1);
    }
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

enum {
    SAMPLE_PERIOD_NS = 50000,
    SAMPLE_PAGES = 256, /* eight bytes per sample: six seconds */
    SAMPLED_THREADS = 64,
};

struct sampler {
    int fds[SAMPLED_THREADS];
    void *rings[SAMPLED_THREADS];
    int count;
};

static inline size_t sample_ring_bytes(void)
{
    return (SAMPLE_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
}

static inline int sampler_add(struct sampler *sampler, pid_t thread)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = SAMPLE_PERIOD_NS,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return errno == ESRCH ? 0 : -errno; /* it may have ended */
    void *ring = mmap(NULL, sample_ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) {
        int error = -errno;
        close(fd);
        return error;
    }
    sampler->fds[sampler->count] = fd;
    sampler->rings[sampler->count++] = ring;
    return 0;
}

static inline void sampler_close(struct sampler *sampler)
{
    for (int i = 0; i < sampler->count; i++) {
        munmap(sampler->rings[i], sample_ring_bytes());
        close(sampler->fds[i]);
    }
    sampler->count = 0;
}

/* Starts sampling all threads that the process has now. Returns 0 or -errno (-EACCES:
 * kernel.perf_event_paranoid). */
static inline int sampler_open(struct sampler *sampler, pid_t pid)
{
    char path[64];
    sampler->count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (!threads)
        return -errno;
    int error = 0;
    for (struct dirent *entry; !error && (entry = readdir(threads));)
        if (entry->d_name[0] != '.' && sampler->count < SAMPLED_THREADS)
            error = sampler_add(sampler, atoi(entry->d_name));
    closedir(threads);
    if (error)
        sampler_close(sampler);
    return error;
}

static inline void count_samples(const struct perf_event_mmap_page *ring, long *user, long *all)
{
    const char *data = (const char *)ring + ring->data_offset;
    uint64_t end = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
    for (uint64_t at = 0; at < end;) {
        struct perf_event_header
            head; /* eight bytes, aligned to eight: never split by the ring's end */
        memcpy(&head, data + at % ring->data_size, sizeof head);
        at += head.size;
        if (head.type != PERF_RECORD_SAMPLE)
            continue;
        *all += 1;
        *user += (head.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
    }
}

/* Stops sampling. Returns the share of samples outside the kernel, or -1 if there were none. */
static inline double sampler_user_share(struct sampler *sampler)
{
    long user = 0, all = 0;
    for (int i = 0; i < sampler->count; i++)
        ioctl(sampler->fds[i], PERF_EVENT_IOC_DISABLE, 0);
    for (int i = 0; i < sampler->count; i++)
        count_samples(sampler->rings[i], &user, &all);
    sampler_close(sampler);
    return all ? (double)user / (double)all : -1;
}

#endif
