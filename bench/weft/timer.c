/* Timers with callbacks, in a pool of one worker:
 *   timer_bulk   1,000,000 timers with random times of 1 to 60 s are set, then all are cancelled
 *   timer_once   one timer is set and cancelled repeatedly
 *   timer_late   the lateness of a single timer's callback in an idle pool
 * Usage: timer bulk|once|late
 */
#include "program.h"

enum { TIMERS = 1000000, PAIRS = 20000000, SHOTS = 1000 };

static weft_timer *timers, lone;
static int64_t *deadlines;
static uint64_t late[SHOTS];
static int shots;
static atomic_int done;

static void nothing(weft_timer *timer, void *arg, uint64_t times)
{
    (void)timer;
    (void)arg;
    (void)times;
}

static void *bulk(void *arg)
{
    int64_t now = weft_now();
    uint64_t seed = 1;
    for (int i = 0; i < TIMERS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        deadlines[i] = now + 1000000000 + (int64_t)(seed >> 33) % 59000 * 1000000;
        weft_timer_init(&timers[i], nothing, NULL, NULL);
    }
    uint64_t start = now_ns();
    for (int i = 0; i < TIMERS; i++)
        weft_timer_set(&timers[i], deadlines[i]);
    for (int i = 0; i < TIMERS; i++)
        weft_timer_cancel(&timers[i]);
    report("weft", "timer_bulk", "", ns_since(start) / TIMERS, "ns");
    return arg;
}

static void *once(void *arg)
{
    weft_timer_init(&lone, nothing, NULL, NULL);
    int64_t deadline = weft_after(10000000000);
    uint64_t start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        weft_timer_set(&lone, deadline + i);
        weft_timer_cancel(&lone);
    }
    report("weft", "timer_once", "", ns_since(start) / PAIRS, "ns");
    return arg;
}

static void note_late(weft_timer *timer, void *arg, uint64_t times)
{
    int64_t *due = arg;
    (void)times;
    late[shots] = (uint64_t)(weft_now() - *due);
    if (++shots == SHOTS) {
        atomic_store(&done, 1);
        return;
    }
    *due = weft_after(1000000 + shots * 997 % 1000 * 1000);
    weft_timer_set(timer, *due);
}

static void lateness(void)
{
    weft_pool *pool;
    int64_t due;
    must(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), "weft_pool_create");
    must(weft_pool_start(pool), "weft_pool_start");
    weft_timer_init(&lone, note_late, &due, &(struct weft_timer_opts){.pool = pool});
    due = weft_after(1000000);
    weft_timer_set(&lone, due);
    while (!atomic_load(&done))
        usleep(10000);
    weft_timer_cancel_wait(&lone, WEFT_FOREVER);
    report_latency("weft", "timer_late", late, SHOTS);
    must(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), "weft_pool_stop");
    weft_pool_destroy(pool);
}

int main(int argc, char **argv)
{
    timers = calloc(TIMERS, sizeof *timers);
    deadlines = calloc(TIMERS, sizeof *deadlines);
    if (argc > 1 && !strcmp(argv[1], "late"))
        lateness();
    else
        run_main_fiber("1", argc > 1 && !strcmp(argv[1], "once") ? once : bulk);
}
