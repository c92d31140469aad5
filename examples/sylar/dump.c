/* sylar: dump(os) and its numbers: size, active, idle, stopping, thread ids. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static void *hold(void *arg)
{
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static bool waits(weft_fiber fiber)
{
    enum weft_fiber_state state;
    return weft_fiber_state(fiber, &state) == 0 && state == WEFT_FIBER_WAITING;
}

static void *look(void *arg)
{
    weft_fiber fiber;
    char text[4096] = "";
    if (weft_spawn(&fiber, hold, arg, &(struct weft_fiber_opts){.name = "patient"}) != 0) {
        return NULL;
    }
    while (!waits(fiber)) {
        weft_yield();
    }
    FILE *out = fmemopen(text, sizeof text, "w");
    if (!out) {
        return NULL;
    }
    weft_pool_dump(weft_pool_self(), out, 100); /* for people */
    fclose(out);
    fputs(text, stdout);

    struct weft_pool_stats pool; /* for programs: m_threadCount, m_activeThreadCount, ... */
    weft_pool_stats(weft_pool_self(), &pool);
    struct weft_worker_stats worker;
    weft_worker_stats(weft_pool_self(), &worker, (unsigned)weft_worker_self()); /* m_threadIds */

    weft_fiber_unpark(fiber);
    weft_join(fiber, NULL, WEFT_FOREVER);
    bool ok = strstr(text, "patient") && pool.workers == 2 && pool.active >= 1 && !pool.stopping &&
              pool.live == 2 && worker.tid > 0;
    return ok ? arg : NULL;
}

int main(void)
{
    int token;
    void *ok = NULL;
    int err = weft_run(&ok, look, &token, &(struct weft_pool_opts){.name = "demo", .workers = 2},
                       WEFT_FOREVER);
    return err == 0 && ok ? 0 : 1;
}
