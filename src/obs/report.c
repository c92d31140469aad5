/* The reports of the watchdog: the texts of hog, deadlock and unjoined reports, and the handler
 * that gets all reports. */
#include "obs/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "backtrace/sample.h"
#include "backtrace/unwind.h"
#include "base/clock.h"
#include "context/sanitizer.h"
#include "lock/lock.h"
#include "obs/fiber_wait.h"
#include "task/slab.h"
#include "wait/wake_source.h"
#include "watchdog/watchdog.h"

#define MAX_FIBERS 100 /* in one report */
#define MAX_WAITING_THREADS 32
#define MAX_FRAMES 32
#define SAMPLE_NS 200000000 /* a machine that needs longer has bigger problems */

static struct weft__lock lock;
static weft_report_fn hook; /* both under the lock */
static void *hook_arg;

void weft_on_report(weft_report_fn fn, void *arg)
{
    weft__lock(&lock);
    hook = fn;
    hook_arg = arg;
    weft__unlock(&lock);
}

void weft__report_fork_prepare(void)
{
    weft__lock(&lock);
}

void weft__report_fork_parent(void)
{
    weft__unlock(&lock);
}

void weft__report_fork_child(void)
{
    weft__unlock(&lock);
    weft__sample_fork_child();
}

bool weft__report_open(struct weft__report *report)
{
    report->text = NULL;
    report->out = open_memstream(&report->text, &report->length);
    return report->out != NULL;
}

void weft__report_send(struct weft__report *report, enum weft_report_kind kind)
{
    fclose(report->out);
    if (!report->text) {
        return;
    }
    weft__lock(&lock);
    weft_report_fn fn = hook;
    void *arg = hook_arg;
    weft__unlock(&lock);
    if (fn) {
        fn(kind, report->text, arg);
    } else {
        fwrite(report->text, 1, report->length, stderr);
        fflush(stderr);
    }
    free(report->text);
}

/* --- hogs ------------------------------------------------------------------------ */

/* Print the backtrace, if the thread can be sampled in time. Not under valgrind, where everything
 * is slow enough to be a hog: after a signal on a fiber of the main thread, valgrind considers the
 * memory below the stack pointer inaccessible and reports the next calls as errors. */
static void print_backtrace(const struct weft__hog *hog, FILE *out)
{
    if (weft__san_valgrind) {
        return;
    }
    struct weft__stack_sample *stack_sample =
        weft__unwind_prepare() ? malloc(sizeof *stack_sample) : NULL;
    void *pcs[MAX_FRAMES];
    if (!stack_sample || weft__sample_begin(0) != 0) {
        free(stack_sample);
        return;
    }
    int err = weft__sample(hog->tid, hog->fiber, weft__clock_ns() + SAMPLE_NS, stack_sample);
    weft__sample_end();
    int n = err ? 0 : weft__stack_sample_unwind(stack_sample, NULL, pcs, MAX_FRAMES);
    for (int i = 0; i < n; i++) {
        char text[160];
        weft__symbol_format(pcs[i], i > 0, text, sizeof text);
        fprintf(out, "    at %s\n", text);
    }
    free(stack_sample);
}

void weft__report_hog(const struct weft__hog *hog)
{
    struct weft__report report;
    if (!weft__report_open(&report)) {
        return;
    }
    fputs("weft: hog: fiber ", report.out);
    weft__fiber_print(hog->fiber, report.out);
    fprintf(report.out, " keeps worker %d of pool %s (thread %d) for %" PRId64 " ms already\n",
            hog->worker, hog->pool, hog->tid, hog->held_ns / 1000000);
    if (hog->bound) {
        fprintf(report.out,
                "  bound to that worker: %" PRIu64 "; other workers cannot take them over\n",
                hog->bound);
    }
    print_backtrace(hog, report.out);
    weft__report_send(&report, WEFT_REPORT_HOG);
}

/* --- deadlocks ---------------------------------------------------------------------- */

/* Print one line; false: not a fiber that has begun and not ended. */
static bool print_fiber(const struct weft__task *task, bool silent, FILE *out)
{
    uint64_t ident = task ? atomic_load_explicit(&task->ident, memory_order_acquire) : 0;
    struct weft__fiber_wait waits;
    if (!(ident & WEFT__IDENT_LIVE) ||
        !weft__fiber_wait_read(weft__ident_generation(ident) << 32 | task->slot, &waits)) {
        return false;
    }
    if (!silent) {
        fprintf(out, "  pool %s: ", waits.pool);
        weft__fiber_wait_print(&waits, out);
        fputc('\n', out);
    }
    return true;
}

/* A thread that waits inside Weft and has not been fired. */
struct waiting_thread {
    int tid;
    struct weft__fiber_wait waits;
};

/* Copies as many as fit; returns how many there are. Copied first, because printing takes other
 * locks. */
static size_t copy_waiting_threads(struct waiting_thread *out, size_t capacity)
{
    size_t count = 0;
    const struct weft__thread_wait *wait = NULL;
    weft__thread_wait_freeze();
    while ((wait = weft__thread_wait_next(wait))) {
        if (!weft__thread_wait_is_pending(wait)) {
            continue;
        }
        if (count < capacity) {
            out[count] = (struct waiting_thread){.tid = wait->tid};
            weft__fiber_wait_fill(wait->kind, wait->on, &out[count].waits);
        }
        count++;
    }
    weft__thread_wait_thaw();
    return count;
}

static void print_threads(FILE *out)
{
    struct waiting_thread threads[MAX_WAITING_THREADS];
    size_t count = copy_waiting_threads(threads, MAX_WAITING_THREADS);
    for (size_t i = 0; i < count && i < MAX_WAITING_THREADS; i++) {
        fprintf(out, "  thread %d ", threads[i].tid);
        weft__fiber_wait_print_object(&threads[i].waits, out);
        fputc('\n', out);
    }
    if (count > MAX_WAITING_THREADS) {
        fprintf(out, "  ... and %zu more threads\n", count - MAX_WAITING_THREADS);
    }
}

void weft__report_deadlock(void)
{
    struct weft__report report;
    if (!weft__report_open(&report)) {
        return;
    }
    fputs("weft: deadlock: all fibers wait, and nothing can wake any of them\n", report.out);
    print_threads(report.out);
    size_t printed = 0;
    uint32_t slots = weft__slab_slots();
    for (uint32_t slot = 1; slot <= slots; slot++) {
        printed += print_fiber(weft__slab_find(slot), printed >= MAX_FIBERS, report.out);
    }
    if (printed > MAX_FIBERS) {
        fprintf(report.out, "  ... and %zu more\n", printed - MAX_FIBERS);
    }
    weft__report_send(&report, WEFT_REPORT_DEADLOCK);
}

/* --- unjoined fibers ------------------------------------------------------------------------ */

void weft__report_unjoined(const char *pool, uint64_t count, weft_fiber first)
{
    struct weft__report report;
    if (!weft__report_open(&report)) {
        return;
    }
    fprintf(report.out,
            "weft: unjoined: pool %s ended without a join or detach of %" PRIu64
            " of its fibers, %s ",
            pool, count, count > 1 ? "the first" : "which is");
    weft__fiber_print(first, report.out);
    fputs(": call weft_join or weft_fiber_detach for each, or spawn it detached\n", report.out);
    weft__report_send(&report, WEFT_REPORT_UNJOINED);
}

/* --- public calls --------------------------------------------------------------------------- */

void weft_watchdog_stats(struct weft_watchdog_stats *out)
{
    weft__watchdog_stats(out);
    out->cycles = weft__cycles_reported();
}

const char *weft__wake_source_name(enum weft_wake_source wake_source)
{
    static const char *const names[] = {"runs", "empty", "waiting for a timer",
                                        "waiting for an external wake source", "deadlock"};
    return (unsigned)wake_source < sizeof names / sizeof *names ? names[wake_source] : "unknown";
}
