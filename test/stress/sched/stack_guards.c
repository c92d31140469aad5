/* 100,000 parked fibers, each with its guard, in a handful of mappings; a million in a long run
 * (WEFT_STRESS=1000), or as many as fit in a quarter of the free memory. */
/* not under: asan tsan valgrind qemu */
/* serial */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

#define STACK_BYTES ((size_t)64 * 1024)
#define BYTES_EACH 4400 /* resident, with the kernel's page tables */

static atomic_long parked;

static long mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    CHECK(maps != NULL);
    for (int c; (c = getc(maps)) != EOF;) {
        lines += c == '\n';
    }
    fclose(maps);
    return lines;
}

/* Reads a number of bytes from a line of a file in /proc. */
static long bytes_in(const char *path, const char *format)
{
    FILE *file = fopen(path, "r");
    char line[256];
    long kib = 0;
    CHECK(file != NULL);
    while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, format, &kib);
    }
    fclose(file);
    return kib * 1024;
}

/* Counted: statm may be off by some MiB for each of many CPUs. */
static long resident_bytes(void)
{
    return bytes_in("/proc/self/smaps_rollup", "Rss: %ld kB");
}

static long free_bytes(void)
{
    return bytes_in("/proc/meminfo", "MemAvailable: %ld kB");
}

/* Its frame is in the topmost page; the guard begins a stack's size below that page. */
static void *park(void *frame)
{
    *(char **)frame = __builtin_frame_address(0);
    atomic_fetch_add(&parked, 1);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return NULL;
}

struct crowd {
    long count;
    weft_fiber *fibers;
    char **frames;
};

static void gather(const struct crowd *crowd)
{
    for (long i = 0; i < crowd->count; i++) {
        CHECK_EQ(weft_spawn(&crowd->fibers[i], park, &crowd->frames[i], NULL), 0);
        if (i % 64 == 0) {
            weft_yield();
        }
    }
    while (atomic_load(&parked) < crowd->count) {
        weft_yield();
    }
}

static void dismiss(const struct crowd *crowd)
{
    for (long i = 0; i < crowd->count; i++) {
        CHECK_EQ(weft_fiber_unpark(crowd->fibers[i]), 0);
    }
    for (long i = 0; i < crowd->count; i++) {
        CHECK_EQ(weft_join(crowd->fibers[i], NULL, WEFT_FOREVER), 0);
    }
}

/* The kernel cannot read there; it can read the byte above the guard. */
static void check_guards(const struct crowd *crowd)
{
    int ends[2];
    char sink;
    CHECK_EQ(pipe(ends), 0);
    for (long i = 0; i < crowd->count; i++) {
        const char *frame = crowd->frames[i];
        CHECK_EQ(write(ends[1], frame, 1), 1);
        CHECK_EQ(read(ends[0], &sink, 1), 1);
        CHECK(write(ends[1], frame - STACK_BYTES, 1) < 0 && errno == EFAULT);
    }
    close(ends[0]);
    close(ends[1]);
}

static void *gather_and_look(void *arg)
{
    struct crowd *crowd = arg;
    struct weft_memory_stats memory;
    long maps_before = mappings(), bytes_before = resident_bytes();
    gather(crowd);
    long maps = mappings() - maps_before;
    double each = (double)(resident_bytes() - bytes_before) / (double)crowd->count;
    weft_memory_stats(&memory);
    printf("%ld fibers, %s: %ld more mappings, %.0f bytes each\n", crowd->count, memory.guard, maps,
           each);
    fflush(stdout);
    CHECK(maps < 100);
    CHECK(crowd->count < 10000 || each < BYTES_EACH);
    check_guards(crowd);
    dismiss(crowd);
    return arg;
}

TEST(each_of_many_fibers_is_guarded_with_few_mappings)
{
    struct weft_memory_stats memory;
    struct crowd crowd = {.count = check_scale(100000)};
    weft_memory_stats(&memory);
    if (strcmp(memory.guard, "guard-install") != 0) {
        check_skip("this kernel has no guard markers");
    }
    long fit = free_bytes() / 4 / BYTES_EACH;
    crowd.count = crowd.count < fit ? crowd.count : fit;
    crowd.fibers = malloc((size_t)crowd.count * sizeof *crowd.fibers);
    crowd.frames = malloc((size_t)crowd.count * sizeof *crowd.frames);
    CHECK(crowd.fibers != NULL && crowd.frames != NULL);
    memset(crowd.fibers, 0,
           (size_t)crowd.count * sizeof *crowd.fibers); /* resident before the count */
    memset(crowd.frames, 0, (size_t)crowd.count * sizeof *crowd.frames);
    CHECK_EQ(weft_run(NULL, gather_and_look, &crowd, &(struct weft_pool_opts){.workers = 2},
                      WEFT_FOREVER),
             0);
    free(crowd.fibers);
    free(crowd.frames);
}
