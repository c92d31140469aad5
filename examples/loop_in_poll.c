/* A weft_loop inside a program with its own poll(2) loop: the host waits for the loop's descriptor
 * and for its own, and gives the loop a turn when there is something to do. The loop collects log
 * lines from pipes; callbacks get bytes in arbitrary pieces, and a line decoder finds the lines. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { APP, DB, AUDIT, METRICS, SOURCES, LINES = 20 };

static weft_loop *loop;

static struct source {
    const char *name;
    int read_end, write_end;
    weft_watch *watch; /* NULL: ended */
    weft_line decoder;
    char bytes[256]; /* received, and not yet complete lines */
    size_t len;
    int lines, last_call;
} sources[SOURCES] = {{.name = "app"}, {.name = "db"}, {.name = "audit"}, {.name = "metrics"}};

/* Counts the complete lines in the buffer and moves the rest to its start. */
static int split_lines(struct source *source)
{
    struct weft_framed line;
    size_t used = 0;
    ssize_t n;
    while ((n = weft_line_next(&source->decoder, &line, source->bytes + used, source->len - used)) >
           0) {
        source->lines += line.len > 0;
        used += (size_t)n;
    }
    source->len -= used;
    memmove(source->bytes, source->bytes + used, source->len);
    return (int)n; /* 0: the rest is not complete yet */
}

static void on_readable(weft_watch *watch, int fd, int events, void *arg)
{
    struct source *source = arg;
    if (events < 0) { /* the last call, after a cancel */
        source->last_call = events;
        source->watch = NULL;
        return;
    }
    ssize_t n = read(fd, source->bytes + source->len, sizeof source->bytes - source->len);
    source->len += n > 0 ? (size_t)n : 0;
    if (n <= 0 || split_lines(source) < 0) { /* end of file, or a line that is too long */
        weft_watch_remove(watch);            /* no last call */
        source->watch = NULL;
    }
    if (!sources[APP].watch && !sources[DB].watch) {
        weft_watch_cancel_all(loop, -1); /* the others have nothing to add */
    }
}

/* Runs on the loop's thread, posted by the other one. */
static void mute(void *arg)
{
    struct source *source = arg;
    if (source->watch) {
        weft_watch_cancel(source->watch);
    }
}

/* The programs that log; in a thread of its own. */
static void *write_logs(void *quit)
{
    bool ok = weft_loop_post(loop, mute, &sources[AUDIT]) == 0;
    for (int i = 0; i < 2 * LINES; i++) { /* in halves of lines */
        const char *half = i % 2 ? " done\r\n" : "request";
        ok &= write(sources[APP].write_end, half, strlen(half)) > 0;
        ok &= write(sources[DB].write_end, half, strlen(half)) > 0;
    }
    close(sources[APP].write_end);
    close(sources[DB].write_end);
    ok &= write(*(int *)quit, "q", 1) == 1;
    return ok ? NULL : quit;
}

/* Milliseconds until the deadline, rounded up, for poll(2). */
static int milliseconds_until(int64_t deadline)
{
    int64_t left = deadline - weft_now();
    if (deadline == WEFT_FOREVER) {
        return -1;
    }
    return left <= 0 ? 0 : left > WEFT_SECONDS(1) ? 1000 : (int)((left + 999999) / 1000000);
}

/* A periodic job of the loop, so that it has a deadline. */
static void tick(weft_loop_timer *timer, void *ticks)
{
    ++*(int *)ticks;
    weft_loop_timer_set(timer, weft_after(WEFT_MS(1)));
}

static int host_loop(int quit)
{
    bool has_quit = false;
    int turns = 0;
    while (!has_quit || weft_loop_pending(loop) > 0) {
        struct pollfd fds[2] = {{.fd = weft_loop_fd(loop), .events = POLLIN},
                                {.fd = has_quit ? -1 : quit, .events = POLLIN}};
        poll(fds, 2, milliseconds_until(weft_loop_next_deadline(loop)));
        has_quit = has_quit || fds[1].revents;
        turns += weft_loop_turn(loop, 0) > 0; /* also if only the deadline has come */
    }
    return turns;
}

int main(void)
{
    int quit[2], ticks = 0;
    weft_loop_timer timer;
    pthread_t thread;
    void *failed = NULL;
    if (weft_loop_create(&loop, NULL) || pipe(quit)) {
        return 1;
    }
    for (int i = 0; i < SOURCES; i++) {
        struct source *source = &sources[i];
        int ends[2];
        weft_line_init(&source->decoder, &(struct weft_line_opts){.max = 80});
        if (pipe(ends) ||
            weft_watch_add(loop, &source->watch, ends[0], WEFT_READABLE, on_readable, source)) {
            return 1;
        }
        source->read_end = ends[0];
        source->write_end = ends[1];
    }
    weft_loop_timer_init(&timer, loop, tick, &ticks);
    weft_loop_timer_set(&timer, weft_after(WEFT_MS(1)));
    if (pthread_create(&thread, NULL, write_logs, &quit[1])) {
        return 1;
    }
    int turns = host_loop(quit[0]);
    pthread_join(thread, &failed);
    weft_loop_timer_cancel(&timer);
    printf("driver %s: %d turns, %d ticks, %d and %d lines\n", weft_loop_driver(loop), turns, ticks,
           sources[APP].lines, sources[DB].lines);
    for (int i = 0; i < SOURCES; i++) {
        weft_loop_close(loop, sources[i].read_end);
    }
    weft_loop_destroy(loop);
    close(sources[AUDIT].write_end);
    close(sources[METRICS].write_end);
    close(quit[0]);
    close(quit[1]);
    if (failed || sources[APP].lines != LINES || sources[DB].lines != LINES ||
        sources[AUDIT].last_call != -ECANCELED || sources[METRICS].last_call != -ECANCELED) {
        fprintf(stderr, "loop_in_poll: lines are missing, or a watch was not cancelled\n");
        return 1;
    }
    return 0;
}
