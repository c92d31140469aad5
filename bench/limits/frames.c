/* The cost of `frame_sleep100k` without a runtime: 100,000 records with as many cache lines as a
 * sleeping frame fiber has (a control block of two, a frame of two, a timer of one) are created,
 * put to sleep and woken in the order of their deadlines, by a loop that knows that order; the
 * thread sleeps from one millisecond to the next. The records are created in the order in which the
 * previous round freed them. The loop decides, queues and checks nothing. CPU time, second round,
 * as in the workload. */
#include "../measure.h"

#include <string.h>
#include <sys/resource.h>

enum { FIBERS = 100000, LINE = 64, SPAN_MS = 1000 };

struct block {
    char bytes[2 * LINE];
} __attribute__((aligned(LINE)));

struct timer {
    uint64_t at;
    char bytes[LINE - 8];
} __attribute__((aligned(LINE)));

static struct block *blocks, *frames;
static struct timer *timers;
static int order[FIBERS], by_deadline[FIBERS], delay_ms[FIBERS];

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static void touch(struct block *block)
{
    volatile char *bytes = block->bytes;
    bytes[0]++;
    bytes[LINE]++;
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (now_ns() < ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void sort_by_deadline(void)
{
    int n = 0;
    for (int ms = 0; ms < SPAN_MS; ms++)
        for (int i = 0; i < FIBERS; i++)
            if (delay_ms[order[i]] == ms)
                by_deadline[n++] = order[i];
}

static double round_of(uint64_t *seed)
{
    for (int i = 0; i < FIBERS; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        delay_ms[order[i]] = (int)((*seed >> 33) % SPAN_MS);
    }
    sort_by_deadline();
    double before = cpu_ms();
    for (int i = 0; i < FIBERS; i++) { /* create */
        touch(&frames[order[i]]);
        touch(&blocks[order[i]]);
    }
    uint64_t start = now_ns();
    for (int i = 0; i < FIBERS; i++) { /* the first step */
        touch(&blocks[order[i]]);
        touch(&frames[order[i]]);
        timers[order[i]].at = start + (uint64_t)delay_ms[order[i]] * 1000000;
    }
    for (int i = 0; i < FIBERS; i++) { /* the second step */
        int next = by_deadline[i];
        if (timers[next].at > now_ns())
            sleep_until(timers[next].at);
        touch(&blocks[next]);
        touch(&frames[next]);
    }
    return cpu_ms() - before;
}

static void *lines_of(size_t bytes)
{
    void *memory = aligned_alloc(LINE, FIBERS * bytes);
    if (!memory)
        abort();
    return memset(memory, 0, FIBERS * bytes);
}

int main(void)
{
    uint64_t seed = 1;
    blocks = lines_of(sizeof *blocks);
    frames = lines_of(sizeof *frames);
    timers = lines_of(sizeof *timers);
    for (int i = 0; i < FIBERS; i++)
        order[i] = i;
    round_of(&seed);
    for (int i = 0; i < FIBERS; i++)
        order[i] = by_deadline[FIBERS - 1 - i];
    report("limit", "frame_sleep100k", "", round_of(&seed), "ms");
}
