/* Collects Weft's reports. */
#ifndef WEFT_TEST_OBS_REPORTS_H
#define WEFT_TEST_OBS_REPORTS_H

#include <dirent.h>
#include <sys/syscall.h>

#include "pool/fixture.h"

static pthread_mutex_t reports_lock = PTHREAD_MUTEX_INITIALIZER;
static char reports_text[4][4096]; /* by kind, one after another */
static int reports_count[4];

__attribute__((unused)) static void reports_add(enum weft_report_kind kind, const char *text,
                                                void *arg)
{
    (void)arg;
    pthread_mutex_lock(&reports_lock);
    size_t used = strlen(reports_text[kind]);
    snprintf(reports_text[kind] + used, sizeof reports_text[kind] - used, "%s", text);
    reports_count[kind]++;
    pthread_mutex_unlock(&reports_lock);
}

__attribute__((unused)) static void reports_begin(void)
{
    memset(reports_text, 0, sizeof reports_text);
    memset(reports_count, 0, sizeof reports_count);
    weft_on_report(reports_add, NULL);
}

__attribute__((unused)) static int reports_of(enum weft_report_kind kind)
{
    pthread_mutex_lock(&reports_lock);
    int n = reports_count[kind];
    pthread_mutex_unlock(&reports_lock);
    return n;
}

__attribute__((unused)) static void await_reports(enum weft_report_kind kind, int n)
{
    while (reports_of(kind) < n) {
        weft_yield();
    }
}

/* "#3.1 a", as reports print a fiber. */
__attribute__((unused)) static const char *fiber_text(weft_fiber fiber, char *buf, size_t size)
{
    char name[16] = "";
    int n = weft_fiber_format(fiber, buf, size);
    weft_fiber_name(fiber, name, sizeof name);
    snprintf(buf + n, size - (size_t)n, " %s", name);
    return buf;
}

__attribute__((unused)) static void *end_at_once(void *arg)
{
    return arg;
}

/* Threads started by a sanitizer or an emulator, at the latest together with the program's first
 * thread, wake no fibers. */
__attribute__((unused)) static void ignore_other_threads(void)
{
    thread_close(thread_open(end_at_once, NULL));
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    CHECK(dir);
    while ((entry = readdir(dir))) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && tid != (int)syscall(SYS_gettid)) {
            CHECK_EQ(weft_watchdog_ignore_thread(tid), 0);
        }
    }
    closedir(dir);
}

#endif
