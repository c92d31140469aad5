#include "system_info.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* MemAvailable of /proc/meminfo. */
static double available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    double kib = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kib * 1024;
}

/* Returns false if there is no such file, or no number in it ("max"). */
static bool read_number(const char *folder, const char *name, double *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    bool found = file && fscanf(file, "%lf", out) == 1;
    if (file) {
        fclose(file);
    }
    return found;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* Returns the part of `bytes` that one cgroup folder allows; `limit` and `used` name its files. */
static double cut_by(const char *folder, const char *limit, const char *used, double bytes)
{
    double most, now;
    if (read_number(folder, limit, &most) && read_number(folder, used, &now)) {
        bytes = lesser(bytes, most > now ? most - now : 0);
    }
    return bytes;
}

/* A cgroup's limit applies to everything below it: checks every folder from the process's own up to
 * the root. */
static double cut_by_all(const char *root, const char *own, const char *limit, const char *used,
                         double bytes)
{
    char folder[400];
    snprintf(folder, sizeof folder, "%s%s", root, own);
    for (;;) {
        bytes = cut_by(folder, limit, used, bytes);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(root)) {
            return bytes;
        }
        *slash = '\0';
    }
}

double system_free_bytes(void)
{
    double bytes = available_bytes();
    FILE *file = fopen("/proc/self/cgroup", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *own = strchr(line, '/');
        if (!own) {
            continue;
        }
        if (strncmp(line, "0::", 3) == 0) {
            bytes = cut_by_all("/sys/fs/cgroup", own, "memory.max", "memory.current", bytes);
        } else if (strstr(line, ":memory:")) {
            bytes = cut_by_all("/sys/fs/cgroup/memory", own, "memory.limit_in_bytes",
                               "memory.usage_in_bytes", bytes);
        }
    }
    if (file) {
        fclose(file);
    }
    return bytes;
}

double system_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long total, resident = 0;
    if (file) {
        if (fscanf(file, "%ld %ld", &total, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

void system_name(char *buf, size_t size)
{
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(buf, size, "%s %s %s", name.sysname, name.release, name.machine);
    } else {
        snprintf(buf, size, "unknown");
    }
}
