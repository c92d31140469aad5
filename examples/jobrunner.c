/* A job runner on a dispatcher: any thread sends jobs through a channel, a limited number begins
 * per second, and a few run at once. It stops gracefully, on SIGINT or SIGTERM or after a number of
 * jobs: accepted jobs finish, later jobs are refused.
 *
 * One group, one thread: the runners share their books without a lock. Each runner is a frame fiber
 * of some hundred bytes; it waits for the next job, then for its turn, then for the job's own time.
 *
 *     jobrunner [JOBS [PER_SECOND [RUNNERS]]]    JOBS 0: until a signal comes
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct job {
    int number;
    int64_t takes_ns;
};

/* Belongs to the group: no other thread touches it. */
struct runner_books {
    weft_group *group;
    weft_chan *queue;
    int64_t next_turn, interval_ns; /* rate limit: start time of the next job */
    int wanted, begun, done;
    int at_once, most_at_once;
};

/* --- a runner ------------------------------------------------------------------------------ */

struct runner {
    weft_frame frame;
    struct weft_wait wait;
    struct runner_books *books;
    struct job job;
};

static enum weft_step receive(weft_frame *f, struct weft_got got);

static enum weft_step finished(weft_frame *f, struct weft_got got)
{
    struct runner_books *books = ((struct runner *)f)->books;
    (void)got;
    books->at_once--;
    if (++books->done == books->wanted) {
        weft_group_stop(books->group); /* the intake fiber closes the queue */
    }
    return weft_frame_continue(f, NULL, WEFT_THEN(receive));
}

static enum weft_step begin(weft_frame *f, struct weft_got got)
{
    struct runner *self = (struct runner *)f;
    struct runner_books *books = self->books;
    (void)got;
    books->begun++;
    if (++books->at_once > books->most_at_once) {
        books->most_at_once = books->at_once;
    }
    /* The job itself. A job that computes for long would yield; a job that blocks would use
     * weft_blocking_call. */
    return weft_frame_sleep(f, weft_after(self->job.takes_ns), WEFT_THEN(finished));
}

static enum weft_step received(weft_frame *f, struct weft_got got)
{
    struct runner_books *books = ((struct runner *)f)->books;
    if (got.status == -EPIPE) { /* closed and empty */
        return weft_frame_return(f, NULL);
    }
    int64_t now = weft_now(), turn = books->next_turn > now ? books->next_turn : now;
    books->next_turn = turn + books->interval_ns;
    return weft_frame_sleep(f, turn, WEFT_THEN(begin));
}

static enum weft_step receive(weft_frame *f, struct weft_got got)
{
    struct runner *self = (struct runner *)f;
    (void)got;
    return weft_frame_await_recv(f, &self->wait, self->books->queue, &self->job, WEFT_FOREVER,
                                 WEFT_THEN(received));
}

static const struct weft_frame_kind running = {.name = "runner", .start = receive};

/* --- start and stop --------------------------------------------------------------------------- */

/* Closes the queue when the group stops. */
static void *intake(void *arg)
{
    struct runner_books *books = arg;
    weft_group_sleep(WEFT_FOREVER);
    weft_chan_close(books->queue);
    return NULL;
}

/* A daemon: the group does not wait for a signal. */
static void *watch_signals(void *arg)
{
    struct runner_books *books = arg;
    static const int signals[] = {SIGINT, SIGTERM};
    weft_signal_set *set;
    struct weft_signal_info info;
    if (weft_signal_open(&set, signals, 2, &(struct weft_signal_opts){.force = true})) {
        return NULL;
    }
    if (weft_signal_wait(set, &info, WEFT_FOREVER) == 0) {
        printf("signal %d: no more jobs, %d are done\n", info.signal, books->done);
        weft_group_stop(books->group);
    }
    weft_signal_close(set);
    return NULL;
}

/* Prints a report periodically; sleeps until the next report or the stop. */
static void *report(void *arg)
{
    struct runner_books *books = arg;
    while (weft_group_sleep(weft_after(WEFT_MS(50))) == -ETIMEDOUT) {
        printf("%d begun, %d done, %d queued\n", books->begun, books->done,
               (int)weft_chan_length(books->queue));
    }
    return NULL;
}

static int start(struct runner_books *books, struct runner *runners, int n)
{
    int err = weft_group_spawn(books->group, NULL, intake, books, NULL);
    err = err ? err : weft_group_spawn(books->group, NULL, report, books, NULL);
    err = err ? err
              : weft_group_spawn(books->group, NULL, watch_signals, books,
                                 &(struct weft_member_opts){.name = "signals", .daemon = true});
    for (int i = 0; i < n && !err; i++) {
        runners[i].books = books;
        weft_frame_init(&runners[i].frame, &running);
        err = weft_group_spawn_frame(books->group, NULL, &runners[i].frame, NULL);
    }
    return err;
}

/* The producer is a plain thread: this one. Returns the number of accepted jobs. */
static int bring_jobs(struct runner_books *books)
{
    for (int n = 1;; n++) {
        struct job job = {.number = n, .takes_ns = WEFT_MS(1 + n % 5)};
        if (weft_chan_send(books->queue, &job, WEFT_FOREVER) != 0) { /* waits while full */
            return n - 1;
        }
    }
}

static int argument(int argc, char **argv, int i, int otherwise)
{
    return argc > i ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    enum { MOST_RUNNERS = 64 };
    static struct runner runners[MOST_RUNNERS];
    static struct runner_books books;
    weft_dispatcher *dispatcher;
    int per_second = argument(argc, argv, 2, 500), n = argument(argc, argv, 3, 4);
    books.wanted = argument(argc, argv, 1, 50);
    if (books.wanted < 0 || per_second < 1 || n < 1 || n > MOST_RUNNERS) {
        fprintf(stderr, "usage: jobrunner [JOBS [PER_SECOND [RUNNERS, 1 to %d]]]\n", MOST_RUNNERS);
        return 2;
    }
    books.interval_ns = WEFT_SECONDS(1) / per_second;
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.name = "jobs"}) ||
        weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &books.group, &(struct weft_group_opts){.name = "runner"}) ||
        weft_chan_create(&books.queue, sizeof(struct job),
                         &(struct weft_chan_opts){.name = "jobs", .capacity = 16})) {
        return 1;
    }
    int64_t began = weft_now();
    int err = start(&books, runners, n);
    int accepted = err ? 0 : bring_jobs(&books);
    err = err ? err : weft_future_wait(weft_group_finished(books.group), WEFT_FOREVER);
    int64_t took = weft_now() - began;
    weft_dispatcher_stop(dispatcher, NULL, 0, weft_after(WEFT_SECONDS(1)));
    weft_dispatcher_destroy(dispatcher);
    weft_chan_destroy(books.queue);
    printf("%d jobs in %.0f ms, at most %d at once\n", books.done, (double)took / 1e6,
           books.most_at_once);
    /* All accepted jobs are done, and none began before its turn. */
    bool ok = books.done == accepted && books.done >= books.wanted && books.most_at_once <= n &&
              took >= (books.done - 1) * books.interval_ns;
    return err || !ok;
}
