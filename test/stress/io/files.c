/* Files are closed while operations on them are in progress, and their numbers go to other files at
 * once: an operation on the old file never reaches the new one. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "io/drivers.h"

enum { LANES = 4, WRITERS = 3 };

static char folder[32];
static atomic_long ended, written;

struct lane {
    int number, fd;
    char name[64], other[64];
    uint64_t state;
};

static uint32_t draw(struct lane *lane, uint32_t below)
{
    lane->state = lane->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((lane->state >> 33) % below);
}

static void *writes(void *arg)
{
    const struct lane *lane = arg;
    char block[512];
    memset(block, 'a', sizeof block);
    ssize_t n = weft_pwrite(lane->fd, block, sizeof block, 0, WEFT_FOREVER);
    if (n == -EBADFD) {
        atomic_fetch_add(&ended, 1);
    } else {
        CHECK_EQ(n, sizeof block);
        atomic_fetch_add(&written, 1);
    }
    return NULL;
}

/* Waits until the fiber is in its call, or has returned from it. */
static weft_fiber started(struct lane *lane)
{
    weft_fiber fiber;
    enum weft_fiber_state state;
    CHECK_EQ(weft_spawn(&fiber, writes, lane, NULL), 0);
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING && state != WEFT_FIBER_DONE);
    return fiber;
}

static void round_of(struct lane *lane)
{
    struct statx st;
    weft_fiber fibers[WRITERS];
    unsigned n = 1 + draw(lane, WRITERS);
    lane->fd =
        weft_open_at(AT_FDCWD, lane->name, O_CREAT | O_TRUNC | O_RDWR, 0600, 0, WEFT_FOREVER);
    CHECK(lane->fd >= 0);
    for (unsigned i = 0; i < n; i++) {
        fibers[i] = started(lane);
    }
    CHECK_EQ(weft_close(lane->fd), 0);
    int other =
        weft_open_at(AT_FDCWD, lane->other, O_CREAT | O_TRUNC | O_RDWR, 0600, 0, WEFT_FOREVER);
    CHECK(other >= 0);
    for (unsigned i = 0; i < n; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_fstat(other, &st, WEFT_FOREVER), 0);
    CHECK_EQ(st.stx_size, 0);
    CHECK_EQ(weft_close(other), 0);
}

static void *runs(void *arg)
{
    struct lane *lane = arg;
    long rounds = check_scale(400);
    snprintf(lane->name, sizeof lane->name, "%s/a%d", folder, lane->number);
    snprintf(lane->other, sizeof lane->other, "%s/b%d", folder, lane->number);
    for (long i = 0; i < rounds; i++) {
        round_of(lane);
    }
    CHECK_EQ(weft_unlink_at(AT_FDCWD, lane->name, 0, WEFT_FOREVER) |
                 weft_unlink_at(AT_FDCWD, lane->other, 0, WEFT_FOREVER),
             0);
    return NULL;
}

static void *app(void *arg)
{
    struct lane lanes[LANES];
    weft_fiber fibers[LANES];
    for (int i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){.number = i, .state = check_seed() + (uint64_t)i};
        CHECK_EQ(weft_spawn(&fibers[i], runs, &lanes[i], NULL), 0);
    }
    for (int i = 0; i < LANES; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

EACH_DRIVER(reused_fd_gets_no_operation_of_closed_file)
{
    const struct weft_pool_opts opts = {.workers = 3, .driver = driver};
    strcpy(folder, "/tmp/weft-files-XXXXXX");
    CHECK(mkdtemp(folder));
    check_seed();
    atomic_store(&ended, 0);
    atomic_store(&written, 0);
    CHECK_EQ(weft_run(NULL, app, NULL, &opts, WEFT_FOREVER), 0);
    CHECK_EQ(rmdir(folder), 0);
    printf("  %ld written, %ld ended by the close\n", atomic_load(&written), atomic_load(&ended));
}
