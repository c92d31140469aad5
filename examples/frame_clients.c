/* Many mostly idle connections, each a frame fiber without a stack: it waits for its descriptor,
 * asks a library that answers through a callback on a thread of its own, parks until the callback
 * unparks it, and writes the reply. A step never blocks; between steps only the frame is kept. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

enum { CLIENTS = 50, REQUESTS = 4 };

/* --- a library that reports results through callbacks --------------------------------------- */

struct job {
    long number;
    void (*done)(struct job *job, long result);
    struct job *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first;
    bool stop;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void library_submit(struct job *job)
{
    pthread_mutex_lock(&library.lock);
    job->next = library.first;
    library.first = job;
    pthread_cond_signal(&library.changed);
    pthread_mutex_unlock(&library.lock);
}

static void *library_thread(void *arg)
{
    pthread_mutex_lock(&library.lock);
    while (!library.stop || library.first) {
        struct job *job = library.first;
        if (!job) {
            pthread_cond_wait(&library.changed, &library.lock);
            continue;
        }
        library.first = job->next;
        pthread_mutex_unlock(&library.lock);
        job->done(job, job->number * job->number);
        pthread_mutex_lock(&library.lock);
    }
    pthread_mutex_unlock(&library.lock);
    return arg;
}

/* --- a connection --------------------------------------------------------------------------- */

struct connection {
    weft_frame frame; /* first */
    struct weft_wait wait;
    struct job job;
    weft_fiber self;
    long reply;
    int fd, client;
};

static enum weft_step readable(weft_frame *f, struct weft_got got);
static enum weft_step writable(weft_frame *f, struct weft_got got);

/* Called on the library's thread. */
static void on_result(struct job *job, long result)
{
    struct connection *c = (struct connection *)((char *)job - offsetof(struct connection, job));
    c->reply = result;
    weft_fiber_unpark(c->self); /* also if the fiber does not park yet */
}

static enum weft_step await_request(weft_frame *f, struct weft_got got)
{
    struct connection *c = (struct connection *)f;
    (void)got;
    return weft_frame_await_fd(f, &c->wait, c->fd, WEFT_READABLE, WEFT_FOREVER,
                               WEFT_THEN(readable));
}

static enum weft_step readable(weft_frame *f, struct weft_got got)
{
    struct connection *c = (struct connection *)f;
    ssize_t n = got.status ? -1 : recv(c->fd, &c->job.number, sizeof c->job.number, 0);
    if (n < 0 && got.status == 0 && errno == EAGAIN) {
        return await_request(f, got);
    }
    if (n != sizeof c->job.number) { /* a request is small: it comes as a whole, or the end */
        return weft_frame_return(f, NULL);
    }
    c->self = weft_self();
    c->job.done = on_result;
    library_submit(&c->job);
    return weft_frame_park(f, WEFT_FOREVER, WEFT_THEN(writable));
}

static enum weft_step writable(weft_frame *f, struct weft_got got)
{
    struct connection *c = (struct connection *)f;
    ssize_t n = got.status ? -1 : send(c->fd, &c->reply, sizeof c->reply, MSG_NOSIGNAL);
    if (n < 0 && got.status == 0 && errno == EAGAIN) {
        return weft_frame_await_fd(f, &c->wait, c->fd, WEFT_WRITABLE, WEFT_FOREVER,
                                   WEFT_THEN(writable));
    }
    return n < 0 ? weft_frame_return(f, NULL)
                 : weft_frame_continue(f, NULL, WEFT_THEN(await_request));
}

static const struct weft_frame_kind connection_kind = {.name = "connection",
                                                       .start = await_request};

/* --- the clients ---------------------------------------------------------------------------- */

static void *run(void *arg)
{
    static struct connection connections[CLIENTS];
    static weft_fiber fibers[CLIENTS];
    long right = 0, reply;
    int opened = 0, err = 0;
    for (; opened < CLIENTS && !err; opened += !err) {
        struct connection *c = &connections[opened];
        int ends[2];
        err = weft_socketpair(SOCK_SEQPACKET, ends);
        if (!err) {
            c->fd = ends[0];
            c->client = ends[1];
            weft_frame_init(&c->frame, &connection_kind);
            err = weft_spawn_frame(&fibers[opened], &c->frame, NULL);
        }
    }
    for (long i = 0; i < REQUESTS; i++) {
        for (long k = 0; k < opened; k++) { /* all requests of a round are under way at once */
            long number = i * CLIENTS + k;
            weft_write(connections[k].client, &number, sizeof number, WEFT_FOREVER);
        }
        for (long k = 0; k < opened; k++) {
            long number = i * CLIENTS + k;
            ssize_t n = weft_read(connections[k].client, &reply, sizeof reply, WEFT_FOREVER);
            right += n == sizeof reply && reply == number * number;
        }
    }
    for (int k = 0; k < opened; k++) {
        weft_close(connections[k].client); /* the connection reads the end, and returns */
        weft_join(fibers[k], NULL, WEFT_FOREVER);
        weft_close(connections[k].fd);
    }
    printf("%d connections: %ld right replies\n", opened, right);
    *(long *)arg = right;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    long right = 0;
    if (pthread_create(&thread, NULL, library_thread, NULL)) {
        return 1;
    }
    int err = weft_run(NULL, run, &right, NULL, WEFT_FOREVER);
    pthread_mutex_lock(&library.lock);
    library.stop = true;
    pthread_cond_signal(&library.changed);
    pthread_mutex_unlock(&library.lock);
    pthread_join(thread, NULL);
    if (err || right != CLIENTS * REQUESTS) {
        fprintf(stderr, "frame_clients: %s\n", err ? weft_strerror(err) : "replies are missing");
        return 1;
    }
    return 0;
}
