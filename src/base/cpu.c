#include "base/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rounds a quota up: 1.5 CPUs of time are worth two threads. 0: no limit. */
static unsigned quota_cpus(double quota, double period)
{
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    unsigned cpus = (unsigned)(quota / period);
    return cpus * period < quota ? cpus + 1 : cpus;
}

static bool read_line(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f) {
        return false;
    }
    bool ok = fgets(buf, (int)size, f) != NULL;
    fclose(f);
    return ok;
}

static unsigned lower(unsigned a, unsigned b)
{
    return b && (!a || b < a) ? b : a;
}

/* cgroup v2: "max 100000" or "150000 100000" in cpu.max of the group and of each parent. */
static unsigned quota_v2(const char *group)
{
    char path[512], line[128];
    unsigned least = 0;
    size_t len = strlen(group);
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/cpu.max", (int)len, group);
        double quota, period;
        if (read_line(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2) {
            least = lower(least, quota_cpus(quota, period));
        }
        while (len > 0 && group[len - 1] != '/') {
            len--;
        }
        if (len == 0) {
            return least;
        }
        len--; /* the slash: go on with the parent */
    }
}

static unsigned quota_v1(const char *group)
{
    char path[512], quota[64], period[64];
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group);
    if (!read_line(path, quota, sizeof quota)) {
        return 0;
    }
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group);
    if (!read_line(path, period, sizeof period)) {
        return 0;
    }
    return quota_cpus(atof(quota), atof(period));
}

static unsigned quota(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) {
        return 0;
    }
    char line[512];
    unsigned least = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *group = strrchr(line, ':');
        if (!group) {
            continue;
        }
        group++;
        if (strcmp(group, "/") == 0) {
            group++; /* the root: its files lie directly in the mount */
        }
        if (strncmp(line, "0::", 3) == 0) {
            least = lower(least, quota_v2(group));
        } else if (strstr(line, ":cpu,") || strstr(line, ":cpu:") || strstr(line, ",cpu:")) {
            least = lower(least, quota_v1(group));
        }
    }
    fclose(f);
    return least;
}

unsigned weft__cpu_usable(void)
{
    cpu_set_t set;
    unsigned cpus = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cpus = (unsigned)CPU_COUNT(&set);
    }
    cpus = lower(cpus, quota());
    return cpus ? cpus : 1;
}
