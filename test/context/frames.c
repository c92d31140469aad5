/* A fiber's frames, followed by frame pointers from the innermost call to the entry, as profilers
 * do. test/context/gdb stops this program in `innermost` and follows the same frames with a
 * debugger. */
/* labels: valgrind */
#include <weft/weft.h>

#include "check.h"

#define DEPTH 20

/* Counts the frames from here to the end of the chain, which must be inside this fiber's stack. */
__attribute__((noinline)) static long innermost(void)
{
    long frames = 0;
    size_t size, high_water;
    CHECK_EQ(weft_fiber_stack(weft_self(), &size, &high_water), 0);
    char *first = __builtin_frame_address(0);
    for (char *frame = first, *caller; frame != NULL; frame = caller) {
        caller = *(char **)(void *)frame;
        CHECK(caller == NULL || caller > frame);
        CHECK(frame < first + size);
        frames++;
    }
    __asm__ volatile("" ::: "memory"); /* prevents a tail call */
    return frames;
}

__attribute__((noinline)) static long deeper(int depth)
{
    long frames = depth > 1 ? deeper(depth - 1) : innermost();
    __asm__ volatile("" : "+r"(frames));
    return frames;
}

static void *call_deep(void *arg)
{
    (void)arg;
    long frames = deeper(DEPTH);
    weft_yield();
    CHECK_EQ(deeper(DEPTH), frames);
    return (void *)frames;
}

/* innermost, deeper, call_deep and weft__fiber_main, and what is between the last two;
 * weft__context_entry has no frame of its own. */
static void check_frames(void *frames, int between)
{
    CHECK_EQ((long)frames, 1 + DEPTH + 1 + between + 1);
}

TEST(frame_pointers_lead_to_fiber_entry)
{
    void *frames;
    CHECK_EQ(
        weft_run(&frames, call_deep, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER),
        0);
    check_frames(frames, 0);
}

TEST(frame_pointers_lead_to_fiber_entry_on_pool_thread)
{
    weft_pool *pool;
    void *frames;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_call(pool, &frames, WEFT_ANY_WORKER, call_deep, NULL, WEFT_FOREVER), 0);
    check_frames(frames, 1); /* the function that weft_pool_call spawns */
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}
