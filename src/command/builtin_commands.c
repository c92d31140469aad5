/* The built-in commands, which every host handles: the function for the step, and the handler. */
#include <weft/actor_out.h>

#include <errno.h>

#include "actor/topic_check.h"
#include "base/alloc.h"
#include "command/call.h"
#include "command/command_request.h"
#include "command/funcpool.h"
#include "mailbox/pending.h"
#include "mailbox/pending_send.h"
#include "relation/relation.h"

/* --- time ----------------------------------------------------------------------------------- */

struct timer_request {
    struct weft__command_request request; /* first, as in all requests */
    int64_t deadline;
};

int weft_out_at(weft_out *out, uint64_t tag, int64_t deadline)
{
    struct timer_request timer_request = {.deadline = deadline};
    return weft__command_request_issue(out, WEFT_COMMAND_TIMER, tag, &timer_request.request,
                                       sizeof timer_request);
}

static int handle_timer(const struct weft_command *command, void *arg)
{
    const struct timer_request *timer_request = weft__command_request_of(command);
    int64_t deadline = timer_request->deadline;
    (void)arg;
    weft_buf_free(command->arg);
    struct weft__pending_entry *entry = weft__pending_entry_new(
        WEFT__PENDING_MESSAGE, command->actor, WEFT_EVENT_COMPLETE, command->tag);
    int err = entry ? weft__pending_add(entry, deadline, 0, NULL) : -ENOMEM;
    if (entry && err) {
        weft__pending_entry_free(entry);
    }
    return err;
}

/* --- send ------------------------------------------------------------------------------------- */

struct message {
    struct weft__command_request request;
    weft_pid to;
    const char *topic;
    uint64_t tag;
    weft_buf *buf;
    int64_t deadline;
};

static void drop_message(struct weft__command_request *request)
{
    weft_buf_free(((struct message *)(void *)request)->buf);
}

int weft_out_send(weft_out *out, uint64_t tag, weft_pid to, const char *topic, uint64_t message_tag,
                  weft_buf *buf, int64_t deadline)
{
    weft__topic_check(topic);
    struct message message = {.request.drop = drop_message,
                              .to = to,
                              .topic = topic,
                              .tag = message_tag,
                              .buf = buf,
                              .deadline =
                                  deadline > 0 || deadline == WEFT_BY_POLICY ? deadline : 0};
    return weft__command_request_issue(out, WEFT_COMMAND_SEND, tag, &message.request,
                                       sizeof message);
}

static int handle_send(const struct weft_command *command, void *arg)
{
    struct message *message = weft__command_request_of(command);
    struct weft__envelope *envelope =
        weft__envelope_new(WEFT_EVENT_MESSAGE, message->tag, message->buf);
    int err = envelope ? 0 : -ENOMEM;
    (void)arg;
    if (envelope) {
        message->buf = NULL;
        envelope->topic = message->topic;
        weft__envelope_set_sender(envelope);
        err = weft__pending_send_start(command, message->to, envelope, message->deadline);
    }
    weft_buf_free(command->arg);
    return err;
}

/* --- spawn ------------------------------------------------------------------------------------ */

struct spawn_request {
    struct weft__command_request request;
    weft_host *host;
    const struct weft_actor_kind *kind;
    const char *method;
    weft_buf *input;
};

static void drop_spawn(struct weft__command_request *request)
{
    weft_buf_free(((struct spawn_request *)(void *)request)->input);
}

int weft_out_spawn(weft_out *out, uint64_t tag, weft_host *host, const struct weft_actor_kind *kind,
                   const char *method, weft_buf *input)
{
    struct spawn_request spawn_request = {
        .request.drop = drop_spawn, .host = host, .kind = kind, .method = method, .input = input};
    return weft__command_request_issue(out, WEFT_COMMAND_SPAWN, tag, &spawn_request.request,
                                       sizeof spawn_request);
}

static int handle_spawn(const struct weft_command *command, void *arg)
{
    const struct spawn_request *spawn_request = weft__command_request_of(command);
    weft_pid pid = {0};
    (void)arg;
    /* Allocated before an actor exists that would have to be reported. */
    weft_buf *pid_buf = weft_buf_alloc(sizeof pid, 0);
    struct weft__envelope *completion =
        pid_buf ? weft__envelope_new(WEFT_EVENT_COMPLETE, command->tag, NULL) : NULL;
    int err = completion ? weft_actor_spawn(spawn_request->host, &pid, spawn_request->kind,
                                            spawn_request->method, spawn_request->input)
                         : -ENOMEM;
    weft_buf_free(command->arg);
    if (err) {
        weft_buf_free(pid_buf);
        if (completion) {
            weft__envelope_free(completion);
        }
        return err;
    }
    *(weft_pid *)(void *)weft_buf_put(pid_buf, sizeof pid) = pid;
    return weft__envelope_complete(command->actor, completion, 0, pid_buf);
}

/* --- monitor ---------------------------------------------------------------------------------- */

struct monitor_request {
    struct weft__command_request request;
    weft_pid other;
};

int weft_out_monitor(weft_out *out, uint64_t tag, weft_pid other)
{
    struct monitor_request monitor_request = {.other = other};
    return weft__command_request_issue(out, WEFT_COMMAND_MONITOR, tag, &monitor_request.request,
                                       sizeof monitor_request);
}

static int handle_monitor(const struct weft_command *command, void *arg)
{
    const struct monitor_request *monitor_request = weft__command_request_of(command);
    weft_pid other = monitor_request->other;
    (void)arg;
    weft_buf_free(command->arg);
    /* Its step has just returned, so the actor has not ended. */
    return weft__monitor_command(weft__actor_of(command->actor), other, command->tag);
}

/* --- blocking functions ----------------------------------------------------------------------- */

struct task {
    struct weft__command_request request;
    weft_blocking_pool *pool;
    weft_function fn;
    void *arg;
    weft_buf *input;
};

static void drop_task(struct weft__command_request *request)
{
    weft_buf_free(((struct task *)(void *)request)->input);
}

int weft_out_blocking(weft_out *out, uint64_t tag, weft_blocking_pool *pool, weft_function fn,
                      void *arg, weft_buf *input)
{
    struct task task = {
        .request.drop = drop_task, .pool = pool, .fn = fn, .arg = arg, .input = input};
    return weft__command_request_issue(out, WEFT_COMMAND_BLOCKING, tag, &task.request, sizeof task);
}

/* The job may run long after the actor has ended: it owns everything it needs. */
struct job {
    struct weft_blocking_job job; /* first */
    weft_function fn;
    void *arg;
    weft_buf *input, *output;
    int err;
};

static void run_job(struct weft_blocking_job *public)
{
    struct job *job = (struct job *)(void *)public;
    job->err = job->fn(job->input, &job->output, job->arg);
}

static void release_job(struct weft_blocking_job *public)
{
    struct job *job = (struct job *)(void *)public;
    weft_buf_free(job->input);
    weft_buf_free(job->output);
    weft__free(job);
}

static int run_blocking(struct weft__command_request *request, weft_buf **result)
{
    struct task *task = (struct task *)(void *)request;
    struct job *job = weft__alloc(sizeof *job);
    if (!job) {
        return -ENOMEM;
    }
    *job = (struct job){.fn = task->fn, .arg = task->arg, .input = task->input};
    task->input = NULL;
    weft_blocking_job_init(&job->job, run_job, release_job);
    int err = weft_blocking_run(task->pool, &job->job, WEFT_FOREVER);
    if (!err) {
        err = job->err;
        *result = job->output;
        job->output = NULL;
    }
    weft_blocking_release(&job->job);
    return err;
}

static int handle_blocking(const struct weft_command *command, void *arg)
{
    (void)arg;
    return weft__command_fiber_start(command, run_blocking);
}

/* --- registration ----------------------------------------------------------------------------- */

int weft__host_handle_builtin(weft_host *host)
{
    static const struct {
        unsigned id;
        weft_command_fn fn;
    } all[] = {
        {WEFT_COMMAND_SEND, handle_send},
        {WEFT_COMMAND_CALL, weft__call_handle},
        {WEFT_COMMAND_SPAWN, handle_spawn},
        {WEFT_COMMAND_MONITOR, handle_monitor},
        {WEFT_COMMAND_TIMER, handle_timer},
        {WEFT_COMMAND_BLOCKING, handle_blocking},
        {WEFT_COMMAND_FUNCTION, weft__funcpool_handle_command},
    };
    int err = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && !err; i++) {
        err = weft__host_handle(host, all[i].id, all[i].fn, NULL);
    }
    return err;
}
