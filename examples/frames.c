/* The program that docs/frames.md explains: frame fibers that wait, call, fail, retry and clean up,
 * in a group of a dispatcher and in a pool. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

/* --- the shape of a step ---------------------------------------------------------------- */

struct countdown {
    weft_frame frame; /* first */
    int left;
};

static enum weft_step count(weft_frame *f, struct weft_got got)
{
    struct countdown *self = (struct countdown *)f;
    (void)got;
    if (self->left == 0) {
        return weft_frame_return(f, self);
    }
    printf("%d\n", self->left--);
    return weft_frame_sleep(f, weft_after(WEFT_MS(1)), WEFT_THEN(count));
}

static const struct weft_frame_kind counting = {.name = "countdown", .start = count};

/* --- waiting with a deadline ------------------------------------------------------------------ */

struct ask {
    weft_frame frame;
    struct weft_wait wait; /* its place in what it waits for */
    weft_chan *answers;
    int answer;
};

static enum weft_step answered(weft_frame *f, struct weft_got got)
{
    struct ask *self = (struct ask *)f;
    if (got.status == -ETIMEDOUT) {
        return weft_frame_throw(f, -ETIMEDOUT, "no answer");
    }
    if (got.status == -EPIPE) {
        return weft_frame_throw(f, -EPIPE, "nobody answers any more");
    }
    return weft_frame_return(f, &self->answer);
}

static enum weft_step ask(weft_frame *f, struct weft_got got)
{
    struct ask *self = (struct ask *)f;
    (void)got;
    return weft_frame_await_recv(f, &self->wait, self->answers, &self->answer,
                                 weft_after(WEFT_MS(5)), WEFT_THEN(answered));
}

static const struct weft_frame_kind asking = {.name = "ask", .start = ask};

/* --- calling a frame, and retrying ------------------------------------------------------------ */

struct fetch {
    weft_frame frame;
    struct ask ask; /* the frame it calls: in its own memory */
    int tries;
};

static enum weft_step fetched(weft_frame *f, struct weft_got got);

static enum weft_step fetch(weft_frame *f, struct weft_got got)
{
    struct fetch *self = (struct fetch *)f;
    (void)got;
    weft_frame_init(&self->ask.frame, &asking);
    return weft_frame_try(f, &self->ask.frame, WEFT_THEN(fetched));
}

static enum weft_step fetched(weft_frame *f, struct weft_got got)
{
    struct fetch *self = (struct fetch *)f;
    if (got.status == 0) {
        return weft_frame_return(f, got.value);
    }
    if (++self->tries == 3) {
        return weft_frame_throw_from(f, -EIO, weft_frame_caught(f), "gave up after 3 tries");
    }
    return weft_frame_sleep(f, weft_after(WEFT_MS(1) << self->tries), WEFT_THEN(fetch));
}

static const struct weft_frame_kind fetching = {.name = "fetch", .start = fetch};

/* --- handle and finally --------------------------------------------------------------------- */

struct session {
    weft_frame frame;
    struct fetch fetch;
    weft_chan *answers;
    bool failed, closed;
};

static enum weft_step session_done(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step session(weft_frame *f, struct weft_got got)
{
    struct session *self = (struct session *)f;
    (void)got;
    self->fetch.ask.answers = self->answers;
    weft_frame_init(&self->fetch.frame, &fetching);
    return weft_frame_call(f, &self->fetch.frame, WEFT_THEN(session_done));
}

static enum weft_step session_handle(weft_frame *f, const weft_error *error)
{
    if (weft_error_code(error) == -ECANCELED) {
        return weft_frame_rethrow(f);
    }
    weft_error_dump(error, stdout);
    ((struct session *)f)->failed = true;
    return weft_frame_return(f, NULL);
}

static enum weft_step session_finally(weft_frame *f)
{
    ((struct session *)f)->closed = true;
    return weft_frame_done(f);
}

static const struct weft_frame_kind serving = {
    .name = "session",
    .start = session,
    .handle = session_handle,
    .finally = session_finally,
};

/* --- in a group ----------------------------------------------------------------------------- */

static void *answer(void *answers)
{
    int number = 42;
    weft_chan_send(answers, &number, WEFT_FOREVER);
    return NULL;
}

static bool in_a_group(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    weft_chan *answers, *unanswered;
    weft_fiber fiber;
    struct countdown countdown = {.left = 3};
    static struct session lucky, unlucky;
    void *result = NULL;
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_chan_create(&answers, sizeof(int),
                         &(struct weft_chan_opts){.group = group, .capacity = 1}) ||
        weft_chan_create(&unanswered, sizeof(int), &(struct weft_chan_opts){.group = group})) {
        return false;
    }
    weft_frame_init(&countdown.frame, &counting);
    weft_frame_init(&lucky.frame, &serving);
    weft_frame_init(&unlucky.frame, &serving);
    lucky.answers = answers;
    unlucky.answers = unanswered;
    int err = weft_group_spawn_frame(group, NULL, &countdown.frame, NULL);
    err = err ? err : weft_group_spawn_frame(group, &fiber, &lucky.frame, NULL);
    err = err ? err : weft_group_spawn_frame(group, NULL, &unlucky.frame, NULL);
    err = err ? err : weft_group_spawn(group, NULL, answer, answers, NULL);
    weft_group_stop(group); /* the group finishes when these fibers have ended */
    err = err ? err : weft_dispatcher_run(dispatcher);
    err = err ? err : weft_join(fiber, &result, WEFT_FOREVER);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    weft_chan_destroy(answers);
    weft_chan_destroy(unanswered);
    return !err && result && *(int *)result == 42 && !lucky.failed && lucky.closed &&
           unlucky.failed && unlucky.closed;
}

/* --- in a pool ------------------------------------------------------------------------------ */

static bool in_a_pool(void)
{
    enum { FIBERS = 1000 };
    weft_pool *pool;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}) || weft_pool_start(pool)) {
        return false;
    }
    int spawned = 0;
    while (spawned < FIBERS) {
        struct countdown *c = (struct countdown *)weft_frame_create(&counting, sizeof *c);
        if (!c) {
            break;
        }
        if (weft_pool_spawn_frame(pool, NULL, &c->frame,
                                  &(struct weft_fiber_opts){.detached = true})) {
            weft_frame_destroy(&c->frame);
            break;
        }
        spawned++;
    }
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    return spawned == FIBERS;
}

int main(void)
{
    return in_a_group() && in_a_pool() ? 0 : 1;
}
