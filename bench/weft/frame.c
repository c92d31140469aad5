/* Frame fibers in a group of a dispatcher, compared with Tokio's tasks. usage: frame memory
 * [FIBERS] | sleep */
#include "program.h"

#include <errno.h>
#include <sys/resource.h>

static weft_group *group;

static weft_frame *frame_of(const struct weft_frame_kind *kind, size_t bytes)
{
    weft_frame *frame = weft_frame_create(kind, bytes);
    must(frame ? 0 : -ENOMEM, "weft_frame_create");
    return frame;
}

static void spawn(weft_frame *frame)
{
    must(weft_group_spawn_frame(group, NULL, frame, NULL), "weft_group_spawn_frame");
}

/* --- memory --------------------------------------------------------------------------------- */

static long fibers = 1000000, parked;
static double before;

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

static enum weft_step measures(weft_frame *f, struct weft_got got)
{
    (void)got;
    if (parked != fibers)
        return weft_frame_yield(f, WEFT_THEN(measures));
    report("weft", "frame_memory", "", (resident_bytes() - before) / (double)fibers, "B/fiber");
    _exit(0); /* skips the parked fibers */
}

static enum weft_step starts_all(weft_frame *f, struct weft_got got)
{
    static const struct weft_frame_kind kind = {.name = "park", .start = parks};
    (void)got;
    before = resident_bytes();
    for (long i = 0; i < fibers; i++)
        spawn(frame_of(&kind, sizeof(weft_frame)));
    return weft_frame_yield(f, WEFT_THEN(measures));
}

/* --- sleep ------------------------------------------------------------------------------------ */

enum { SLEEPERS = 100000 };

struct sleeper {
    weft_frame frame;
    int64_t ms;
};

static struct {
    weft_cond slept;
    struct weft_wait wait;
    long left;
    int round;
    double began, first; /* ms of CPU time */
} all;

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
    if (--all.left == 0)
        weft_cond_signal(&all.slept);
    return weft_frame_return(f, NULL);
}

static enum weft_step sleeps(weft_frame *f, struct weft_got got)
{
    struct sleeper *self = (struct sleeper *)f;
    (void)got;
    return weft_frame_sleep(f, weft_after(self->ms * 1000000), WEFT_THEN(has_slept));
}

static enum weft_step round_is_over(weft_frame *f, struct weft_got got);

static enum weft_step begins_round(weft_frame *f, struct weft_got got)
{
    static const struct weft_frame_kind kind = {.name = "sleep", .start = sleeps};
    uint64_t seed = 1;
    (void)got;
    all.began = cpu_ms();
    all.left = SLEEPERS;
    for (int i = 0; i < SLEEPERS; i++) {
        struct sleeper *sleeper = (struct sleeper *)frame_of(&kind, sizeof *sleeper);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sleeper->ms = (int64_t)((seed >> 33) % 1000);
        spawn(&sleeper->frame);
    }
    return weft_frame_await_cond(f, &all.wait, &all.slept, WEFT_FOREVER, WEFT_THEN(round_is_over));
}

static enum weft_step round_is_over(weft_frame *f, struct weft_got got)
{
    double took = cpu_ms() - all.began;
    (void)got;
    if (all.round++ == 0) {
        all.first = took;
        return weft_frame_continue(f, NULL, WEFT_THEN(begins_round));
    }
    report("weft", "frame_sleep100k", "", took, "ms");
    report("weft", "frame_sleep100k_first", "", all.first, "ms");
    return weft_frame_return(f, NULL);
}

int main(int argc, char **argv)
{
    static const struct weft_frame_kind memory = {.name = "memory", .start = starts_all};
    static const struct weft_frame_kind sleep = {.name = "sleep", .start = begins_round};
    weft_dispatcher *dispatcher;
    if (argc > 2)
        fibers = atol(argv[2]);
    must(weft_dispatcher_create(&dispatcher,
                                &(struct weft_dispatcher_opts){.caller = true, .hog_ns = -1}),
         "weft_dispatcher_create");
    must(weft_group_create(dispatcher, &group, NULL), "weft_group_create");
    weft_cond_init(&all.slept, &(struct weft_sync_opts){.group = group});
    spawn(frame_of(argc > 1 && !strcmp(argv[1], "sleep") ? &sleep : &memory, sizeof(weft_frame)));
    weft_group_stop(group);
    must(weft_dispatcher_run(dispatcher), "weft_dispatcher_run");
    must(weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER), "weft_dispatcher_stop");
    weft_dispatcher_destroy(dispatcher);
}
