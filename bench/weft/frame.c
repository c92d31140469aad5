/* Frame fibers in a pool of one worker, beside Tokio's tasks. usage: frame memory FIBERS | sleep */
#include "program.h"

#include <errno.h>
#include <sys/resource.h>

static weft_frame *frame_of(const struct weft_frame_kind *kind, size_t bytes)
{
    weft_frame *frame = weft_frame_new(kind, bytes);
    must(frame ? 0 : -ENOMEM, "weft_frame_new");
    return frame;
}

static void spawn(weft_frame *frame)
{
    must(weft_pool_spawn_frame(weft_pool_self(), NULL, frame, NULL), "weft_pool_spawn_frame");
}

/* --- memory --------------------------------------------------------------------------------- */

static long fibers = 1000000, parked;

static enum weft_step goes_on(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step parks(weft_frame *f, struct weft_got got)
{
    (void)got;
    parked++;
    return weft_frame_park(f, WEFT_FOREVER, WEFT_THEN(goes_on));
}

static void *measure_memory(void *arg)
{
    static const struct weft_frame_kind kind = {.name = "park", .start = parks};
    double before = resident_bytes();
    for (long i = 0; i < fibers; i++)
        spawn(frame_of(&kind, sizeof(weft_frame)));
    while (parked != fibers)
        weft_yield();
    report("weft", "frame_memory", "", (resident_bytes() - before) / (double)fibers, "B/fiber");
    (void)arg;
    _exit(0); /* the parked fibers are left behind */
}

/* --- sleep ------------------------------------------------------------------------------------ */

enum { SLEEPERS = 100000 };

static struct countdown countdown;

struct sleeper {
    weft_frame frame;
    int64_t ms;
};

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static enum weft_step has_slept(weft_frame *f, struct weft_got got)
{
    must(got.status, "weft_frame_sleep");
    countdown_done(&countdown);
    return weft_frame_return(f, NULL);
}

static enum weft_step sleeps(weft_frame *f, struct weft_got got)
{
    struct sleeper *self = (struct sleeper *)f;
    (void)got;
    return weft_frame_sleep(f, weft_after(self->ms * 1000000), WEFT_THEN(has_slept));
}

static double sleep_round(void)
{
    static const struct weft_frame_kind kind = {.name = "sleep", .start = sleeps};
    double before = cpu_ms();
    uint64_t seed = 1;
    countdown_init(&countdown, SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++) {
        struct sleeper *sleeper = (struct sleeper *)frame_of(&kind, sizeof *sleeper);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sleeper->ms = (int64_t)((seed >> 33) % 1000);
        spawn(&sleeper->frame);
    }
    countdown_wait();
    return cpu_ms() - before;
}

static void *measure_sleep(void *arg)
{
    double first = sleep_round();
    report("weft", "frame_sleep100k", "", sleep_round(), "ms");
    report("weft", "frame_sleep100k_first", "", first, "ms");
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 2)
        fibers = atol(argv[2]);
    run_main_fiber("1", argc > 1 && !strcmp(argv[1], "sleep") ? measure_sleep : measure_memory);
}
