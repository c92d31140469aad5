/* A job queue with back-pressure: producers send jobs to an actor whose mailbox holds only a few. A
 * producer, fiber or actor, that is faster than the actor waits for capacity. The actor hands each
 * job to a function pool and continues when a job is done; it reports its progress when it is
 * called. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { PRODUCERS = 3, JOBS = 20, AT_ONCE = 4 }; /* one of the producers is an actor */

struct queue {
    long running, done, sum;
};

static weft_funcpool *squares;

/* A job: a number and its square. */
static int square(const weft_buf *input, weft_buf **output, void *arg)
{
    long n;
    (void)arg;
    memcpy(&n, input->data, sizeof n);
    weft_sleep(weft_after(WEFT_US(100))); /* simulate work */
    n *= n;
    *output = weft_buf_copy(&n, sizeof n);
    return *output ? 0 : -1;
}

static int on_job(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    struct queue *q = weft_actor_state(self);
    q->running++;
    return weft_out_function(out, event->tag, squares, weft_actor_take_buf(event), WEFT_FOREVER);
}

static int on_event(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    struct queue *q = weft_actor_state(self);
    if (event->kind == WEFT_EVENT_COMPLETE && !event->error) {
        long n;
        memcpy(&n, event->buf->data, sizeof n);
        q->sum += n;
        q->running--;
        q->done++;
    } else if (event->kind == WEFT_EVENT_CANCEL) {
        weft_out_done(out, NULL);
    }
    return 0;
}

static int on_call(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    (void)out;
    struct queue *q = weft_actor_state(self);
    weft_actor_reply(event->tag, 0, weft_buf_copy(q, sizeof *q));
    return 0;
}

static const struct weft_topic_handler topics[] = {
    {"job", on_job}, {"@events", on_event}, {"progress", on_call}, {NULL, NULL}};

/* While the maximum number of jobs runs, the actor accepts only completions: the messages stay in
 * the mailbox. */
static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    const struct queue *q = weft_actor_state(self);
    weft_out_idle(out);
    int err = weft_topic_dispatch(self, topics, events, n, out);
    if (q->running >= AT_ONCE) {
        weft_out_wait(out);
    }
    return err;
}

static const struct weft_actor_kind queue = {.name = "queue",
                                             .state_bytes = sizeof(struct queue),
                                             .step = step,
                                             .mailbox = 8,
                                             .batch = 1,
                                             .policy = WEFT_MAILBOX_WAIT};

static weft_pid pid;

/* An actor does not wait: it continues when the last job has a place in the mailbox. */
static int produce_in_steps(weft_actor *self, const struct weft_actor_event *events, size_t n,
                            weft_out *out)
{
    long *sent = weft_actor_state(self);
    bool failed = n && (events[0].kind != WEFT_EVENT_COMPLETE || events[0].error);
    if (failed || *sent == JOBS) {
        weft_out_done(out, NULL);
        return 0;
    }
    ++*sent;
    return weft_out_send(out, 0, pid, "job", (uint64_t)*sent, weft_buf_copy(sent, sizeof *sent),
                         WEFT_BY_POLICY);
}

static const struct weft_actor_kind producer = {
    .name = "producer", .state_bytes = sizeof(long), .step = produce_in_steps};

static void *produce(void *arg)
{
    (void)arg;
    for (long i = 1; i <= JOBS; i++) {
        if (weft_actor_send(pid, "job", (uint64_t)i, weft_buf_copy(&i, sizeof i), WEFT_BY_POLICY) !=
            0) {
            break;
        }
    }
    return NULL;
}

static void *run(void *arg)
{
    struct queue progress = {0};
    weft_fiber producers[PRODUCERS - 1];
    bool *well = arg;
    for (int i = 0; i < PRODUCERS - 1; i++) {
        if (weft_spawn(&producers[i], produce, NULL, NULL) != 0) {
            return NULL;
        }
    }
    for (int i = 0; i < PRODUCERS - 1; i++) {
        weft_join(producers[i], NULL, WEFT_FOREVER);
    }
    while (progress.done < (long)PRODUCERS * JOBS) {
        weft_buf *reply;
        if (weft_actor_call(pid, &reply, "progress", NULL, weft_after(WEFT_MINUTES(5))) != 0) {
            return NULL;
        }
        memcpy(&progress, reply->data, sizeof progress);
        weft_buf_free(reply);
        weft_sleep(weft_after(WEFT_MS(1)));
    }
    printf("%ld jobs, sum of squares %ld\n", progress.done, progress.sum);
    *well = true;
    return NULL;
}

int main(void)
{
    weft_host *host;
    weft_pool *pool;
    bool well = false;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2, .caller = true}) != 0 ||
        weft_pool_start(pool) != 0 || weft_host_create(&host, NULL) != 0) {
        return 1;
    }
    if (weft_funcpool_create(&squares, square, NULL,
                             &(struct weft_funcpool_opts){.kind = WEFT_FUNCPOOL_LAZY,
                                                          .pool = pool,
                                                          .workers = AT_ONCE}) == 0 &&
        weft_actor_spawn(host, &pid, &queue, NULL, NULL) == 0 &&
        weft_actor_spawn(host, NULL, &producer, NULL, NULL) == 0) {
        weft_pool_run(pool, NULL, run, &well, WEFT_FOREVER);
    }
    weft_host_stop(host, "done", WEFT_FOREVER);
    weft_host_destroy(host);
    weft_funcpool_stop(squares, WEFT_FOREVER);
    weft_funcpool_destroy(squares);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    return well ? 0 : 1;
}
