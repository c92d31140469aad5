/* The number of CPUs the process may use: quotas of simulated cgroups. */
/* labels: valgrind */
#include "base/cpu.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "check.h"

static char root[64];

static void write_file(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        CHECK(mkdir(full, 0700) == 0 || access(full, X_OK) == 0);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

static void remove_root(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK_EQ(system(command), 0);
}

static void make_root(void)
{
    snprintf(root, sizeof root, "/tmp/weft-cgroup-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
}

static unsigned quota(const char *self)
{
    char cgroups[128], mount[128];
    write_file("/self", self);
    snprintf(cgroups, sizeof cgroups, "%s/self", root);
    snprintf(mount, sizeof mount, "%s/fs", root);
    return weft__cpu_quota(cgroups, mount);
}

TEST(without_cgroups_cpu_quota_is_unlimited)
{
    CHECK_EQ(weft__cpu_quota("/nonexistent/cgroup", "/nonexistent"), 0);
    make_root();
    CHECK_EQ(quota(""), 0);
    CHECK_EQ(quota("nonsense\n"), 0);
    CHECK_EQ(quota("0::/gone\n4:cpu,cpuacct:/gone\n"), 0);
    remove_root();
}

TEST(cgroup_v2_quota_rounds_up_to_whole_cpus)
{
    static const struct {
        const char *text;
        unsigned cpus;
    } cases[] = {{"max 100000\n", 0},    {"50000 100000\n", 1},
                 {"100000 100000\n", 1}, {"150000 100000\n", 2},
                 {"800000 100000\n", 8}, {"garbage\n", 0},
                 {"-1 100000\n", 0},     {"4294967297000 1000\n", 0},
                 {"inf 1\n", 0},         {"nan 1\n", 0},
                 {"1 nan\n", 0},         {"1e300 1e-300\n", 0},
                 {"4294967295 1\n", 0},  {"4294967296 1\n", 0}};
    make_root();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("/fs/a/b/cpu.max", cases[i].text);
        CHECK_EQ(quota("0::/a/b\n"), cases[i].cpus);
    }
    remove_root();
}

TEST(lowest_quota_of_cgroup_and_parents_counts)
{
    make_root();
    write_file("/fs/a/b/cpu.max", "400000 100000\n");
    write_file("/fs/a/cpu.max", "200000 100000\n");
    CHECK_EQ(quota("0::/a/b\n"), 2);
    write_file("/fs/cpu.max", "100000 100000\n");
    CHECK_EQ(quota("0::/a/b\n"), 1);
    CHECK_EQ(quota("0::/\n"), 1);
    write_file("/fs/a/cpu.max", "max 100000\n");
    write_file("/fs/cpu.max", "max 100000\n");
    CHECK_EQ(quota("0::/a/b\n"), 4);
    remove_root();
}

TEST(cgroup_v1_quota_is_read_from_two_files)
{
    make_root();
    write_file("/fs/cpu/a/cpu.cfs_quota_us", "250000\n");
    write_file("/fs/cpu/a/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(quota("5:memory:/a\n4:cpu,cpuacct:/a\n"), 3);
    CHECK_EQ(quota("4:cpuacct,cpu:/a\n"), 3);
    CHECK_EQ(quota("4:cpu:/a\n"), 3);
    CHECK_EQ(quota("4:cpuset:/a\n3:cpuacct:/a\n"), 0); /* other controllers */
    write_file("/fs/cpu/a/cpu.cfs_quota_us", "-1\n");
    CHECK_EQ(quota("4:cpu:/a\n"), 0);
    remove_root();
}

TEST(quota_in_container_is_read_at_mount_root)
{
    make_root();
    write_file("/fs/cpu/cpu.cfs_quota_us", "100000\n");
    write_file("/fs/cpu/cpu.cfs_period_us", "50000\n");
    CHECK_EQ(quota("4:cpu,cpuacct:/machine/4711\n"), 2);
    CHECK_EQ(quota("4:cpu,cpuacct:/\n0::/\n"), 2);
    remove_root();
}
