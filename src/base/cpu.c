#include "base/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_CPUS 1e6 /* more than a machine has: means no limit */

/* Rounds a quota up: 1.5 CPUs of time justify two threads. 0: no limit. */
static unsigned quota_cpus(double quota, double period)
{
    if (!(quota > 0 && period > 0 && quota / period < MAX_CPUS)) { /* also false for NaN */
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

static unsigned min_nonzero(unsigned a, unsigned b)
{
    return b && (!a || b < a) ? b : a;
}

/* v2: "max 100000" or "150000 100000" in cpu.max. 0: no limit, or no such file. */
static unsigned group_v2(const char *mount, const char *group, size_t len)
{
    char path[1024], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%s%.*s/cpu.max", mount, (int)len, group);
    return read_line(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2
               ? quota_cpus(quota, period)
               : 0;
}

/* v1: two files; a quota of -1 means no limit. */
static unsigned group_v1(const char *mount, const char *group, size_t len)
{
    char path[1024], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu%.*s/cpu.cfs_quota_us", mount, (int)len, group);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &quota) != 1) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/cpu%.*s/cpu.cfs_period_us", mount, (int)len, group);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &period) != 1) {
        return 0;
    }
    return quota_cpus(quota, period);
}

/* The lowest limit of the group and of each parent. In a container the group's path is often that
 * of the host while the mount shows the container's own hierarchy: then only its root is found. */
static unsigned group_and_parents(const char *mount, const char *group,
                                  unsigned (*limit)(const char *, const char *, size_t))
{
    unsigned lowest = 0;
    size_t len = strlen(group);
    for (;;) {
        lowest = min_nonzero(lowest, limit(mount, group, len));
        while (len > 0 && group[len - 1] != '/') {
            len--;
        }
        if (len == 0) {
            return lowest;
        }
        len--; /* the slash: continue with the parent */
    }
}

/* Whether "cpu" is among the names of a list like "cpu,cpuacct". */
static bool has_cpu_controller(const char *names)
{
    while (names) {
        if (strncmp(names, "cpu", 3) == 0 && (names[3] == ',' || names[3] == 0)) {
            return true;
        }
        names = strchr(names, ',');
        names = names ? names + 1 : NULL;
    }
    return false;
}

/* A line of /proc/self/cgroup: "0::/group" (v2) or "4:cpu,cpuacct:/group" (v1). */
static unsigned line_quota(char *line, const char *mount)
{
    char *names = strchr(line, ':');
    char *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) {
        return 0;
    }
    names++;
    *group++ = 0;
    if (strcmp(group, "/") == 0) {
        group++; /* the root: its files are directly in the mount */
    }
    if (names[0] == 0) {
        return group_and_parents(mount, group, group_v2);
    }
    return has_cpu_controller(names) ? group_and_parents(mount, group, group_v1) : 0;
}

unsigned weft__cpu_quota(const char *cgroups, const char *mount)
{
    FILE *f = fopen(cgroups, "re");
    if (!f) {
        return 0;
    }
    char line[512];
    unsigned lowest = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        lowest = min_nonzero(lowest, line_quota(line, mount));
    }
    fclose(f);
    return lowest;
}

unsigned weft__cpu_usable(void)
{
    cpu_set_t set;
    unsigned cpus = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cpus = (unsigned)CPU_COUNT(&set);
    }
    cpus = min_nonzero(cpus, weft__cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
    return cpus ? cpus : 1;
}
