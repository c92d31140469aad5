/* The dump of every fiber: what it waits on and who holds that, backtraces, folding, limits, JSON,
 * and the dump by signal. */
/* labels: valgrind */
#include <signal.h>

#include "backtrace/unwind.h"
#include "context/sanitizer.h"
#include "pool/fixture.h"
#include "task/handle.h"
#include "wait/waiter.h"

static char *dump_of(const struct weft_dump_opts *opts)
{
    char *chars;
    size_t size;
    FILE *out = open_memstream(&chars, &size);
    CHECK(out != NULL);
    CHECK_EQ(weft_dump(out, opts), 0);
    CHECK_EQ(fclose(out), 0);
    return chars;
}

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        fputs(text, stderr);
        check_fail(__FILE__, __LINE__, "no \"%s\"", part);
    }
}

static int times(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        n++;
    }
    return n;
}

/* The line that contains both. */
static bool has_line(const char *text, const char *one, const char *two)
{
    for (const char *at = text; (at = strstr(at, one)); at++) {
        const char *end = strchr(at, '\n'), *found = strstr(at, two);
        if (found && end && found < end) {
            return true;
        }
    }
    return false;
}

static void check_line(const char *text, const char *one, const char *two)
{
    if (!has_line(text, one, two)) {
        fputs(text, stderr);
        check_fail(__FILE__, __LINE__, "no line with \"%s\" and \"%s\"", one, two);
    }
}

/* --- fibers that do one thing ----------------------------------------------------------------- */

static atomic_int hogging;
static atomic_bool release;

__attribute__((noinline)) static void *park_in_test(void *arg)
{
    CHECK(weft_fiber_park(WEFT_FOREVER) <= 0);
    __asm__ volatile("" ::: "memory");
    return arg;
}

static void *join_in_test(void *arg)
{
    weft_join(*(weft_fiber *)arg, NULL, WEFT_FOREVER);
    return NULL;
}

static void *await_event(void *arg)
{
    weft_event_wait(arg, WEFT_FOREVER);
    return NULL;
}

static void *sleep_long(void *arg)
{
    weft_sleep(weft_after(3600000000000));
    return arg;
}

__attribute__((noinline)) static void *hog_in_test(void *arg)
{
    atomic_fetch_add(&hogging, 1);
    while (!atomic_load_explicit(&release, memory_order_relaxed)) {
    }
    __asm__ volatile("" ::: "memory");
    return arg;
}

static void *hog_deaf(void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    hog_in_test(NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return arg;
}

static weft_fiber started[64];
static int starts;

static weft_fiber start(weft_pool *pool, const char *name, weft_fn fn, void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, fn, arg, &(struct weft_fiber_opts){.name = name}), 0);
    await_state(fiber,
                fn == hog_in_test || fn == hog_deaf ? WEFT_FIBER_RUNNING : WEFT_FIBER_WAITING);
    started[starts++] = fiber;
    return fiber;
}

static void end_all(weft_pool *pool)
{
    atomic_store(&release, true);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    while (starts > 0) {
        weft_fiber_detach(started[--starts]); /* or it was joined */
    }
    atomic_store(&release, false);
    atomic_store(&hogging, 0);
}

/* --- contents --------------------------------------------------------------------------------- */

TEST(dump_shows_object_each_fiber_waits_on)
{
    weft_pool *pool =
        pool_open(&(struct weft_pool_opts){.name = "shown", .workers = 2, .hog_ns = -1});
    static weft_event door;
    weft_event_init(&door, &(struct weft_sync_opts){.name = "the door"});
    weft_fiber parked = start(pool, "parked", park_in_test, NULL);
    start(pool, "joiner", join_in_test, &parked);
    start(pool, "guest", await_event, &door);
    start(pool, "sleeper", sleep_long, NULL);
    char *text = dump_of(NULL), id[32], on[64];
    weft_fiber_format(parked, id, sizeof id);
    check_has(text, "weft dump of all pools: 4 fibers, 4 waiting, 4 stacks\n");
    check_has(text, "\n1 fiber waiting: park\n");
    check_line(text, id, " parked pool=shown age=");
    snprintf(on, sizeof on, "on=%s parked\n", id);
    check_has(text, on);
    check_line(text, "joiner", on);
    snprintf(on, sizeof on, "on=0x%llx the door", (unsigned long long)(uintptr_t)&door);
    check_line(text, "guest pool=shown", on);
    check_has(text, "1 fiber waiting: sleep\n");
    check_line(text, "sleeper", "since=");
    if (weft__unwind_works()) {
        CHECK_EQ(times(text, "at weft__context_entry"), 4);
        CHECK_EQ(times(text, "    at park_in_test+0x"), 1);
        CHECK_EQ(times(text, "    at weft_event_wait+0x"), 1);
        CHECK_EQ(times(text, "    at sleep_long+0x"), 1);
    } else {
        check_has(text, "no backtraces: built without libunwind\n");
    }
    free(text);
    text = dump_of(&(struct weft_dump_opts){.no_frames = true});
    CHECK(strstr(text, "    at ") == NULL);
    free(text);
    end_all(pool);
}

static weft_fiber holder;

static uint64_t holder_of_thing(uint64_t on)
{
    return on == 0x1234 ? holder : 0;
}

static const char *label_of_thing(uint64_t on)
{
    return on == 0x1234 ? "treasure" : NULL;
}

static void *want_thing(void *arg)
{
    static const struct weft__wait_kind kind = {
        .name = "thing", .holder = holder_of_thing, .label = label_of_thing};
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    CHECK_EQ(weft__waiter_park(&waiter, WEFT_FOREVER, &kind, 0x1234), WEFT__REASON_CANCEL);
    return arg;
}

TEST(dump_shows_holder_of_awaited_object)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    holder = start(pool, "dragon", park_in_test, NULL);
    start(pool, "hero", want_thing, NULL);
    char *text = dump_of(NULL), line[96], id[32];
    weft_fiber_format(holder, id, sizeof id);
    snprintf(line, sizeof line, "on=0x1234 treasure held-by=%s dragon\n", id);
    check_has(text, "1 fiber waiting: thing\n");
    check_line(text, "hero pool=", line);
    free(text);
    text = dump_of(&(struct weft_dump_opts){.format = WEFT_DUMP_JSON});
    snprintf(line, sizeof line, "\"holder\":{\"id\":\"%s\",\"name\":\"dragon\"}", id);
    check_has(text, line);
    check_has(text, "\"on\":{\"address\":\"0x1234\",\"name\":\"treasure\"}");
    free(text);
    end_all(pool);
}

TEST(dump_folds_fibers_with_same_stack)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    for (int i = 0; i < 20; i++) {
        start(pool, "same", park_in_test, NULL);
    }
    start(pool, "else", sleep_long, NULL);
    char *text = dump_of(NULL);
    check_has(text, "\n20 fibers waiting: park\n");
    CHECK_EQ(times(text, " same pool="), 8);
    check_has(text, "  ... and 12 more\n");
    check_has(text, "\n1 fiber waiting: sleep\n");
    free(text);
    text = dump_of(&(struct weft_dump_opts){.max_shown = 100});
    CHECK_EQ(times(text, " same pool="), 20);
    CHECK(strstr(text, "more\n") == NULL);
    free(text);
    text = dump_of(&(struct weft_dump_opts){.max_fibers = 5, .max_frames = 2});
    check_has(text, ": 5 fibers");
    check_has(text, "cut: 16 more fibers were not inspected\n");
    if (weft__unwind_works()) {
        CHECK_EQ(times(text, "    at "), 2);
    }
    free(text);
    end_all(pool);
}

TEST(dump_of_one_pool_omits_others)
{
    weft_pool *one = pool_open(&(struct weft_pool_opts){.name = "one", .workers = 1, .hog_ns = -1});
    weft_pool *two = pool_open(&(struct weft_pool_opts){.name = "two", .workers = 1, .hog_ns = -1});
    start(one, "first", park_in_test, NULL);
    start(two, "second", park_in_test, NULL);
    char *text = dump_of(&(struct weft_dump_opts){.pool = two});
    check_has(text, "weft dump of pool two: 1 fibers, 1 waiting");
    check_line(text, "second", "pool=two");
    CHECK(strstr(text, "first") == NULL);
    free(text);
    CHECK_EQ(weft_pool_stop(one, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(one);
    end_all(two);
}

TEST(dump_shows_backtrace_of_running_fiber)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    start(pool, "hog", hog_in_test, NULL);
    await_count(&hogging, 1);
    /* TSan delays signals until the thread's next call, and this thread makes none. */
    bool sampled = weft__unwind_works() && !WEFT__TSAN;
    char *text = dump_of(&(struct weft_dump_opts){.sample_ns = sampled ? WEFT_FOREVER : 1000000});
    check_has(text, "1 fiber running\n");
    check_has(text, "hog");
    if (sampled) {
        check_has(text, "    at hog_in_test+0x");
        check_has(text, "    at weft__context_entry+0x");
    }
    free(text);
    text = dump_of(&(struct weft_dump_opts){.sample_signal = -1});
    CHECK(strstr(text, "    at ") == NULL);
    free(text);
    end_all(pool);
}

TEST(dump_does_not_hang_on_worker_blocking_signals)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    start(pool, "deaf", hog_deaf, NULL);
    await_count(&hogging, 1);
    char *text = dump_of(&(struct weft_dump_opts){.sample_ns = 1000000});
    check_line(text, "deaf", "pool=");
    if (weft__unwind_works()) {
        check_has(text, "no backtrace: did not answer in time\n");
    }
    free(text);
    end_all(pool);
}

TEST(dump_marks_fiber_with_stuck_lock_unreadable)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    weft_fiber fiber = start(pool, "stuck", park_in_test, NULL);
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    CHECK(task != NULL);
    char *text = dump_of(NULL), *json = dump_of(&(struct weft_dump_opts){.format = WEFT_DUMP_JSON});
    weft__ident_unlock(task, ident);
    check_has(text, ": 1 fibers, 1 unreadable");
    check_has(json, "\"unreadable\":1");
    free(text);
    free(json);
    end_all(pool);
}

__attribute__((noinline)) static void *dump_myself(void *arg)
{
    char *text = dump_of(NULL), id[32];
    weft_fiber_format(weft_self(), id, sizeof id);
    check_line(text, id, "main pool=");
    if (weft__unwind_works() && !WEFT__TSAN && strstr(text, "in time") == NULL) {
        check_has(text, "    at dump_myself+0x");
    }
    free(text);
    return arg;
}

TEST(fiber_may_dump_all_fibers_and_itself)
{
    CHECK_EQ(weft_run(NULL, dump_myself, NULL, &(struct weft_pool_opts){.workers = 1, .hog_ns = -1},
                      WEFT_FOREVER),
             0);
}

TEST(dump_bad_options_are_einval)
{
    CHECK_EQ(weft_dump(stdout, &(struct weft_dump_opts){.max_frames = 129}), -EINVAL);
    CHECK_EQ(weft_dump(stdout, &(struct weft_dump_opts){.sample_ns = -1}), -EINVAL);
    CHECK_EQ(weft_dump(stdout, &(struct weft_dump_opts){.format = (enum weft_dump_format)7}),
             -EINVAL);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        CHECK(weft_dump(full, NULL) < 0);
        fclose(full);
    }
}

/* --- under concurrent change ------------------------------------------------------------------ */

static void *stop_it(void *arg)
{
    CHECK_EQ(weft_pool_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    return NULL;
}

TEST(stopping_pool_may_be_dumped)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    weft_fiber last = start(pool, "last", park_in_test, NULL);
    pthread_t stopper = thread_open(stop_it, pool);
    struct weft_pool_stats stats;
    do {
        sched_yield();
        weft_pool_stats(pool, &stats);
    } while (!stats.stopping);
    char *text = dump_of(&(struct weft_dump_opts){.pool = pool});
    check_line(text, "last", "pool=");
    free(text);
    CHECK_EQ(weft_fiber_unpark(last), 0);
    thread_close(stopper);
    text = dump_of(NULL); /* its result was not taken, and its pool is gone soon */
    check_has(text, "1 done");
    weft_pool_destroy(pool);
    free(text);
    text = dump_of(NULL);
    check_has(text, "1 done");
    free(text);
    CHECK_EQ(weft_fiber_detach(last), 0);
    starts = 0;
}

TEST(dump_holding_fiber_loses_no_wakeup)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    for (long i = check_scale(200); i >= 0; i--) {
        weft_fiber fiber;
        CHECK_EQ(weft_pool_spawn(pool, &fiber, park_in_test, NULL, NULL), 0);
        free(dump_of(&(struct weft_dump_opts){.sample_signal = -1}));
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        free(dump_of(&(struct weft_dump_opts){.sample_signal = -1}));
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    end_all(pool);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static const char script[] =
    "import json, sys\n"
    "d = json.load(open(sys.argv[1]))\n"
    "assert d['weft_dump'] == 1 and d['pool'] is None and d['fibers'] == 13 and d['cut'] == 0\n"
    "assert d['states']['waiting'] == 13 and d['lost'] == 0\n"
    "by = {s['waits']: s for s in d['stacks']}\n"
    "assert by['park']['count'] == 11 and len(by['park']['fibers']) == 11\n"
    "strange = [f for f in by['park']['fibers'] if f['name'] == 'a\"b\\\\\\n\\u00e9']\n"
    "assert len(strange) == 1 and strange[0]['pool'] == 'weft' and strange[0]['bound'] is None\n"
    "assert by['event']['fibers'][0]['on']['name'] == 'door'\n"
    "assert by['join']['fibers'][0]['on_fiber']['name'] == strange[0]['name']\n"
    "assert by['join']['fibers'][0]['holder']['id'] == strange[0]['id']\n"
    "assert all(f['age_ns'] >= 0 and f['since_ns'] >= 0 for s in d['stacks'] for f in s['fibers'])\n"
    "if d['backtraces']:\n"
    "    assert any(f['symbol'].startswith('park_in_test+0x') for f in by['park']['frames'])\n"
    "    assert all(int(f['pc'], 16) for s in d['stacks'] for f in s['frames'])\n";

TEST(json_dump_is_valid_and_matches_text)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    static weft_event door;
    weft_event_init(&door, &(struct weft_sync_opts){.name = "door"});
    weft_fiber strange = start(pool, "a\"b\\\n\xe9", park_in_test, NULL);
    for (int i = 0; i < 10; i++) {
        start(pool, "same", park_in_test, NULL);
    }
    start(pool, "joiner", join_in_test, &strange);
    start(pool, "guest", await_event, &door);
    char path[] = "/tmp/weft-dump-XXXXXX", command[sizeof script + 256];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    FILE *out = fdopen(fd, "w");
    CHECK_EQ(weft_dump(out, &(struct weft_dump_opts){.format = WEFT_DUMP_JSON, .max_shown = 20}),
             0);
    CHECK_EQ(fclose(out), 0);
    end_all(pool);
    if (system("command -v python3 >/dev/null") == 0) {
        snprintf(command, sizeof command, "python3 - %s <<'END'\n%sEND\n", path, script);
        CHECK_EQ(system(command), 0);
    }
    unlink(path);
}

/* --- by signal -------------------------------------------------------------------------------- */

/* Reads until the text contains the part. */
static void read_until(int fd, char *text, size_t size, const char *part)
{
    size_t used = 0;
    do {
        ssize_t n = read(fd, text + used, size - 1 - used);
        CHECK(n > 0);
        used += (size_t)n;
        text[used] = 0;
    } while (!strstr(text, part));
}

TEST(dump_signal_works_with_every_worker_stuck)
{
    static char text[65536];
    int ends[2];
    struct sigaction action;
    CHECK_EQ(pipe(ends), 0);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    start(pool, "deaf", hog_deaf, NULL);
    await_count(&hogging, 1);
    struct weft_dump_opts opts = {.sample_ns = 1000000};
    CHECK_EQ(weft_dump_on_signal(SIGUSR1, ends[1], &opts), 0);
    CHECK_EQ(weft_dump_on_signal(SIGUSR2, ends[1], &opts), -EBUSY);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        read_until(ends[0], text, sizeof text, "deaf pool=weft");
        check_has(text, "weft dump of all pools: 1 fibers, 1 running");
    }
    weft_dump_on_signal_stop();
    weft_dump_on_signal_stop();
    CHECK_EQ(sigaction(SIGUSR1, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    CHECK_EQ(weft_dump_on_signal(SIGKILL, ends[1], NULL), -EINVAL);
    CHECK_EQ(weft_dump_on_signal(SIGUSR1, -1, NULL), -EINVAL);
    signal(SIGUSR1, SIG_IGN);
    CHECK_EQ(weft_dump_on_signal(SIGUSR1, ends[1], NULL), -EBUSY);
    signal(SIGUSR1, SIG_DFL);
    CHECK_EQ(weft_dump_on_signal(SIGUSR1, ends[1], NULL), 0);
    weft_dump_on_signal_stop();
    end_all(pool);
    close(ends[0]);
    close(ends[1]);
}
