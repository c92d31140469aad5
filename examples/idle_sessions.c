/* Close the sessions of users who have gone away. Each session is a member of an idle group; each
 * message from the user touches the session, which is one store. One fiber, the reaper, waits for
 * batches of sessions that were idle for a whole period, and closes them. A user who logs out
 * removes the session: either the user or the reaper gets a session, never both. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { SESSIONS = 60, MESSAGES = 5 };

struct session {
    weft_idle_member idle; /* first */
    weft_event closed;     /* set by the reaper */
    bool logged_out;
};

static weft_idle_group group;
static weft_waitgroup open_sessions;
static struct session sessions[SESSIONS];

static void *reap(void *arg)
{
    weft_idle_member *member;
    ssize_t n;
    int batches = 0;
    while ((n = weft_idle_wait(&group, &member, WEFT_FOREVER)) > 0) {
        batches++;
        while (member) {
            struct session *session = (struct session *)(void *)member;
            member = weft_idle_next(member); /* before the session may be used again */
            weft_event_set(&session->closed);
            weft_waitgroup_done(&open_sessions);
        }
    }
    *(int *)arg = batches;
    return (void *)(intptr_t)(n == -ECANCELED ? 0 : n);
}

/* Users with an even number log out; the others just stop. */
static int use(void *arg)
{
    struct session *session = arg;
    for (int i = 0; i < MESSAGES && !weft_event_is_set(&session->closed); i++) {
        weft_idle_touch(&group, &session->idle);
        weft_yield(); /* the message is handled */
    }
    if ((session - sessions) % 2 == 0 && weft_idle_remove(&group, &session->idle)) {
        session->logged_out = true;
        weft_waitgroup_done(&open_sessions);
    }
    return 0;
}

static int run_users(void)
{
    weft_scope users;
    int err = weft_scope_open(&users, NULL);
    for (int i = 0; i < SESSIONS && !err; i++) {
        weft_waitgroup_add(&open_sessions, 1);
        weft_idle_add(&group, &sessions[i].idle);
        err = weft_scope_spawn(&users, NULL, use, &sessions[i], NULL);
    }
    int failure = weft_scope_close(&users, WEFT_FOREVER);
    printf("%zu sessions are still open after their users have gone\n", weft_idle_count(&group));
    return err ? err : failure;
}

static void *run(void *arg)
{
    weft_fiber reaper;
    void *failure = NULL;
    int batches = 0, logged_out = 0, reaped = 0, forgotten = 0;
    const struct weft_idle_opts opts = {
        .name = "sessions", .period_ns = WEFT_MS(10), .precision_ns = WEFT_MS(1)};
    int err = weft_idle_init(&group, &opts);
    if (err || (err = weft_spawn(&reaper, reap, &batches, NULL))) {
        return (void *)(intptr_t)err;
    }
    err = run_users();
    weft_waitgroup_wait(&open_sessions, WEFT_FOREVER);
    weft_cancel(reaper);
    weft_join(reaper, &failure, WEFT_FOREVER);
    for (int i = 0; i < SESSIONS; i++) {
        bool closed = weft_event_is_set(&sessions[i].closed);
        logged_out += sessions[i].logged_out;
        reaped += closed;
        forgotten += closed == sessions[i].logged_out || (i % 2 && !closed);
    }
    forgotten += (int)weft_idle_count(&group);
    weft_idle_deinit(&group);
    printf("%d logged out, %d were closed in %d batches\n", logged_out, reaped, batches);
    *(bool *)arg = !failure && forgotten == 0;
    return (void *)(intptr_t)err;
}

int main(void)
{
    bool well = false;
    void *failure = NULL;
    int err = weft_run(&failure, run, &well, NULL, WEFT_FOREVER);
    if (err || failure || !well) {
        fprintf(stderr, "idle_sessions: %s; every session must end once\n",
                weft_strerror(err ? err : (int)(intptr_t)failure));
        return 1;
    }
    return 0;
}
