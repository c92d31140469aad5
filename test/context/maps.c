/* No mapping of a process is ever both writable and executable, while fibers of several stack sizes
 * run, are parked and have ended. */
/* labels: hardening */
/* not under: valgrind */
#include <stdatomic.h>
#include <stdio.h>

#include <weft/weft.h>

#include "check.h"

static int writable_and_executable(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    char line[512];
    int lines = 0, bad = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        char perms[5];
        if (sscanf(line, "%*x-%*x %4s", perms) == 1) {
            lines++;
            if (perms[1] == 'w' && perms[2] == 'x') {
                fprintf(stderr, "%s", line);
                bad++;
            }
        }
    }
    fclose(maps);
    CHECK(lines > 0);
    return bad;
}

#define FIBERS 64

static atomic_int parked;

static void *park(void *arg)
{
    char page[4096];
    memset(page, (int)(intptr_t)arg, sizeof page);
    atomic_fetch_add(&parked, 1);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return (void *)(intptr_t)page[sizeof page / 2];
}

static void *look(void *arg)
{
    weft_fiber fibers[FIBERS];
    (void)arg;
    for (int i = 0; i < FIBERS; i++) {
        struct weft_fiber_opts opts = {.stack_bytes = (size_t)16384 << (i % 5)};
        CHECK_EQ(weft_spawn(&fibers[i], park, (void *)(intptr_t)i, &opts), 0);
    }
    while (atomic_load(&parked) < FIBERS) {
        weft_yield();
    }
    CHECK_EQ(writable_and_executable(), 0);
    for (int i = 0; i < FIBERS; i++) {
        void *result;
        CHECK_EQ(weft_fiber_unpark(fibers[i]), 0);
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i);
    }
    CHECK_EQ(writable_and_executable(), 0);
    return NULL;
}

TEST(no_mapping_is_writable_and_executable)
{
    CHECK_EQ(weft_run(NULL, look, NULL, &(struct weft_pool_opts){.workers = 2}, WEFT_FOREVER), 0);
    CHECK_EQ(writable_and_executable(), 0);
}
