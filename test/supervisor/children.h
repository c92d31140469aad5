/* Supervised children that log their starts and ends. */
#ifndef WEFT_TEST_SUPERVISOR_CHILDREN_H
#define WEFT_TEST_SUPERVISOR_CHILDREN_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"

#define MS ((int64_t)1000000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char said[4096]; /* "+a +b -b ..."; guarded by the lock */

static inline void say(char sign, const char *name)
{
    pthread_mutex_lock(&lock);
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s%c%s", used ? " " : "", sign, name);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static inline void forget(void)
{
    pthread_mutex_lock(&lock);
    said[0] = 0;
    pthread_mutex_unlock(&lock);
}

/* The log so far, for the test's main thread: a child that has just ended may have logged it a moment
   ago, on a worker. */
static inline const char *heard(void)
{
    static char copy[sizeof said];
    pthread_mutex_lock(&lock);
    memcpy(copy, said, sizeof said);
    pthread_mutex_unlock(&lock);
    return copy;
}

/* Waits until the whole log equals this text. */
static inline void await(const char *what)
{
    pthread_mutex_lock(&lock);
    while (strcmp(said, what) != 0) {
        CHECK(strlen(said) <= strlen(what));
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

struct child {
    char name[8];
    bool stubborn;
};

static atomic_int refusals; /* this many starts fail */

static inline int begin(weft_actor *self, const char *method, const weft_buf *input)
{
    struct child *child = weft_actor_state(self);
    if (atomic_load(&refusals) > 0) {
        atomic_fetch_sub(&refusals, 1);
        return -EADDRINUSE;
    }
    snprintf(child->name, sizeof child->name, "%s", input ? (const char *)input->data : method);
    say('+', child->name);
    return 0;
}

static inline int step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    struct child *child = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL && !child->stubborn) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            say('?', child->name);
        } else if (strcmp(events[i].topic, "finish") == 0) {
            weft_out_done(out, NULL);
        } else if (strcmp(events[i].topic, "stubborn") == 0) {
            child->stubborn = true;
            say('!', child->name);
        } else {
            return -EDOM;
        }
    }
    return 0;
}

static inline void end(weft_actor *self)
{
    say('-', ((struct child *)weft_actor_state(self))->name);
}

static const struct weft_actor_kind kind = {.name = "child",
                                            .state_bytes = sizeof(struct child),
                                            .init = begin,
                                            .step = step,
                                            .close = end};

#define CHILD(text, ...)                                                                           \
    {                                                                                              \
        .name = text, .kind = &kind, .method = text, __VA_ARGS__                                   \
    }

static inline weft_host *make_host(void)
{
    weft_host *host;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    forget();
    return host;
}

static inline void end_host(weft_host *host)
{
    struct weft_host_stats stats;
    CHECK_EQ(weft_host_stop(host, NULL, weft_after(300000 * MS)), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, 0);
    weft_host_destroy(host);
}

static inline weft_pid start(weft_host *host, const struct weft_supervisor_opts *opts)
{
    weft_pid pid;
    CHECK_EQ(weft_supervisor_start(host, &pid, opts), 0);
    return pid;
}

static inline struct weft_child_info look(weft_pid supervisor, const char *name)
{
    struct weft_child_info infos[16];
    int64_t count = weft_supervisor_children(supervisor, infos, 16);
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, name) == 0) {
            return infos[i];
        }
    }
    return (struct weft_child_info){.error = 1};
}

/* The child's table entry is updated shortly after the child has logged. */
static inline struct weft_child_info await_state(weft_pid supervisor, const char *name,
                                                 enum weft_child_state state)
{
    struct weft_child_info info;
    while ((info = look(supervisor, name)).state != state) {
        sched_yield();
    }
    return info;
}

static inline void tell(weft_pid supervisor, const char *name, const char *topic)
{
    weft_pid pid = await_state(supervisor, name, WEFT_CHILD_RUNNING).pid;
    CHECK_EQ(weft_actor_send(pid, topic, 0, NULL, WEFT_BY_POLICY), 0);
}

static inline int stop(weft_pid supervisor)
{
    CHECK_EQ(weft_actor_cancel(supervisor, NULL), 0);
    int err = weft_actor_join(supervisor, NULL, WEFT_FOREVER);
    return err == -ESRCH ? 0 : err; /* it ended before the join */
}

static const struct weft_child_spec abc[] = {CHILD("a"), CHILD("b"), CHILD("c")};

#endif
