/* An actor that executes what the test tells it, one action at a time, and records its events. */
#ifndef WEFT_TEST_HOST_PUPPET_H
#define WEFT_TEST_HOST_PUPPET_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include <weft/weft.h>

#include "check.h"
#include "host/forced_stop.h"

struct seen {
    enum weft_actor_event_kind kind;
    int error;
    uint64_t tag;
    weft_pid from;
    char text[32]; /* of the buffer or the exit reason */
    const char *topic;
};

struct puppet {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct seen seen[64];
    int count, closed, jobs;
    weft_pid pid;
};

typedef int (*puppet_fn)(weft_actor *self, weft_out *out, void *arg);

struct puppet_job {
    puppet_fn fn;
    void *arg;
    int *result;
};

static inline void puppet_init(struct puppet *p)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
}

static inline struct puppet *puppet_of(weft_actor *self)
{
    return *(struct puppet **)weft_actor_state(self);
}

static inline int puppet_begin(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(struct puppet *));
    return 0;
}

static inline void puppet_note(struct puppet *p, const struct weft_actor_event *e)
{
    const weft_buf *text = e->reason ? e->reason : e->buf;
    pthread_mutex_lock(&p->lock);
    CHECK(p->count < 64);
    struct seen *s = &p->seen[p->count++];
    *s = (struct seen){
        .kind = e->kind, .error = e->error, .tag = e->tag, .from = e->from, .topic = e->topic};
    if (text) {
        snprintf(s->text, sizeof s->text, "%.*s", (int)text->len, (const char *)text->data);
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static inline int puppet_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                              weft_out *out)
{
    struct puppet *p = puppet_of(self);
    int err = 0;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].topic && strcmp(events[i].topic, "job") == 0) {
            struct puppet_job job;
            memcpy(&job, events[i].buf->data, sizeof job);
            int result = job.fn(self, out, job.arg);
            pthread_mutex_lock(&p->lock);
            *job.result = result;
            p->jobs++;
            pthread_cond_broadcast(&p->changed);
            pthread_mutex_unlock(&p->lock);
            err = result == -EDOM ? result : err; /* a failing step */
        } else {
            puppet_note(p, &events[i]);
        }
    }
    return err;
}

static inline void puppet_close(weft_actor *self)
{
    struct puppet *p = puppet_of(self);
    pthread_mutex_lock(&p->lock);
    p->closed++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static const struct weft_actor_kind puppet_kind = {.name = "puppet",
                                                   .state_bytes = sizeof(struct puppet *),
                                                   .init = puppet_begin,
                                                   .step = puppet_step,
                                                   .close = puppet_close};

static inline weft_buf *puppet_input(struct puppet *p)
{
    return weft_buf_copy(&p, sizeof(struct puppet *));
}

static inline void puppet_start(weft_host *host, struct puppet *p)
{
    puppet_init(p);
    weft_buf *input = puppet_input(p);
    CHECK_EQ(weft_actor_spawn(host, &p->pid, &puppet_kind, NULL, input), 0);
    weft_buf_free(input);
}

/* Has the puppet execute the action; returns the action's result. */
static inline int puppet_do(struct puppet *p, puppet_fn fn, void *arg)
{
    int result = 0;
    struct puppet_job job = {.fn = fn, .arg = arg, .result = &result};
    pthread_mutex_lock(&p->lock);
    int before = p->jobs;
    pthread_mutex_unlock(&p->lock);
    CHECK_EQ(weft_actor_send(p->pid, "job", 0, weft_buf_copy(&job, sizeof job), WEFT_BY_POLICY), 0);
    pthread_mutex_lock(&p->lock);
    while (p->jobs == before) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return result;
}

/* Waits until the puppet has seen this many events; returns the last one. */
static inline struct seen puppet_await(struct puppet *p, int count)
{
    pthread_mutex_lock(&p->lock);
    while (p->count < count) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    struct seen seen = p->seen[count - 1];
    pthread_mutex_unlock(&p->lock);
    return seen;
}

static inline int puppet_count(struct puppet *p)
{
    pthread_mutex_lock(&p->lock);
    int count = p->count;
    pthread_mutex_unlock(&p->lock);
    return count;
}

static inline void puppet_await_close(struct puppet *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->closed == 0) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

/* Waits until no actor is left. */
static inline void puppet_await_end(weft_pid pid)
{
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err != -ETIMEDOUT);
}

/* The same inside a step, which cannot wait: another worker ends the actor. This many have ended
 * then. */
static inline void puppet_spin_until_ended(weft_host *host, uint64_t count)
{
    struct weft_host_stats stats;
    do {
        sched_yield();
        weft_host_stats(host, &stats);
    } while (stats.ended < count);
}

/* --- actions ---------------------------------------------------------------------------------- */

static inline int nothing(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)out, (void)arg;
    return 0;
}

/* Returns when the puppet has seen everything that was sent to it before this call. */
static inline void puppet_settle(struct puppet *p)
{
    puppet_do(p, nothing, NULL);
}

static inline int finishes(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)arg;
    weft_out_done(out, NULL);
    return 0;
}

static inline int fails(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)out, (void)arg;
    return -EDOM;
}

static inline int exits(weft_actor *self, weft_out *out, void *arg)
{
    (void)self;
    return weft_out_exit(out, -EIO, arg ? weft_buf_copy(arg, strlen(arg)) : NULL);
}

static inline int puppet_exit(struct puppet *p, const char *text)
{
    return puppet_do(p, exits, (void *)(uintptr_t)text);
}

static inline int traps(weft_actor *self, weft_out *out, void *arg)
{
    (void)out;
    weft_actor_trap(self, arg != NULL);
    return 0;
}

static inline int puppet_trap(struct puppet *p)
{
    return puppet_do(p, traps, p);
}

static inline int links(weft_actor *self, weft_out *out, void *arg)
{
    (void)out;
    return weft_actor_link(self, *(weft_pid *)arg);
}

static inline int unlinks(weft_actor *self, weft_out *out, void *arg)
{
    (void)out;
    return weft_actor_unlink(self, *(weft_pid *)arg);
}

struct watch {
    weft_pid pid;
    uint64_t ref;
};

static inline int monitors(weft_actor *self, weft_out *out, void *arg)
{
    (void)out;
    struct watch *watch = arg;
    return weft_actor_monitor(self, &watch->ref, watch->pid);
}

static inline int demonitors(weft_actor *self, weft_out *out, void *arg)
{
    (void)out;
    return weft_actor_demonitor(self, ((struct watch *)arg)->ref);
}

/* --- a host for a test ------------------------------------------------------------------------ */

static inline weft_host *puppet_host(void)
{
    weft_host *host;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    return host;
}

/* Stops all actors and checks that nothing is left. */
static inline void puppet_host_end(weft_host *host)
{
    struct weft_host_stats stats;
    CHECK(forced_stop(host, NULL, 0) >= 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.spawned, stats.ended);
    CHECK_EQ(stats.live, 0);
    weft_host_destroy(host);
}

#endif
