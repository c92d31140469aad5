/* User sessions that come and go: a dynamic supervisor starts one session per login, restarts a
 * session that crashes with the input it had, and stops a session at its logout. The program lists
 * the sessions in between. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { MOST = 8 };

static weft_chan *logins; /* a session that has started sends its user here */

/* --- a session ------------------------------------------------------------------------------ */

struct user {
    char name[16];
};

static int init_session(weft_actor *self, const char *method, const weft_buf *input)
{
    struct user *user = weft_actor_state(self);
    (void)method;
    if (!input || input->len != sizeof *user) {
        return -EINVAL; /* no child is added */
    }
    memcpy(user, input->data, sizeof *user);
    return weft_chan_send(logins, user, 0);
}

static int run_session(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    const struct user *user = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            printf("%s: goodbye\n", user->name);
            weft_out_done(out, NULL);
            break; /* there may be a second cancel: from the host, and from the supervisor */
        }
    }
    return 0;
}

static const struct weft_actor_kind session_kind = {.name = "session",
                                                    .state_bytes = sizeof(struct user),
                                                    .init = init_session,
                                                    .step = run_session};

/* --- the supervisor ------------------------------------------------------------------------- */

static const struct weft_child_spec session_template = {
    .kind = &session_kind, .restart = WEFT_CHILD_TRANSIENT, .stop_ns = WEFT_MINUTES(1)};

static const struct weft_supervisor_opts sessions = {
    .name = "sessions", .strategy = WEFT_DYNAMIC, .children = &session_template, .count = 1};

static int log_in(weft_pid supervisor, weft_pid *out, const char *name)
{
    struct user user = {0};
    snprintf(user.name, sizeof user.name, "%s", name);
    int err = weft_supervisor_add(supervisor, out, weft_buf_copy(&user, sizeof user), WEFT_FOREVER);
    return err ? err : weft_chan_recv(logins, &user, WEFT_FOREVER);
}

/* Returns the number of sessions, and of their restarts. */
static int64_t list(weft_pid supervisor, uint64_t *restarts)
{
    struct weft_child_info children[MOST];
    char pid[64];
    int64_t n = weft_supervisor_children(supervisor, children, MOST);
    *restarts = 0;
    for (int64_t i = 0; i < n && i < MOST; i++) {
        weft_pid_format(children[i].pid, pid, sizeof pid);
        printf("  %s %s, %d restarts\n", pid, weft_child_state_name(children[i].state),
               (int)children[i].restarts);
        *restarts += children[i].restarts;
    }
    return n;
}

/* Ends a session with an error, and waits until it has started again. */
static int crash(weft_pid session, const char *name)
{
    static const char why[] = "its memory is corrupt";
    struct user user;
    int err = weft_actor_exit(session, -EFAULT, weft_buf_copy(why, sizeof why));
    err = err ? err : weft_chan_recv(logins, &user, WEFT_FOREVER);
    return err ? err : strcmp(user.name, name) == 0 ? 0 : -EPROTO;
}

static int run(weft_pid supervisor)
{
    weft_pid ada, bo, cy;
    uint64_t restarts;
    int err = log_in(supervisor, &ada, "ada");
    err = err ? err : log_in(supervisor, &bo, "bo");
    err = err ? err : crash(bo, "bo");
    err = err ? err : log_in(supervisor, &cy, "cy");
    if (err || list(supervisor, &restarts) != 3 || restarts != 1) {
        return err ? err : -EPROTO;
    }
    err = weft_supervisor_remove(supervisor, ada, WEFT_FOREVER); /* logout: not restarted */
    if (err || list(supervisor, &restarts) != 2) {
        return err ? err : -EPROTO;
    }
    return weft_supervisor_remove(supervisor, ada, WEFT_FOREVER) == -ENOENT ? 0 : -EPROTO;
}

int main(void)
{
    weft_host *host;
    weft_pid supervisor;
    if (weft_chan_create(&logins, sizeof(struct user),
                         &(struct weft_chan_opts){.capacity = MOST}) ||
        weft_host_create(&host, &(struct weft_host_opts){.workers = 2})) {
        fprintf(stderr, "sessions: cannot start\n");
        return 1;
    }
    int err = weft_supervisor_start(host, &supervisor, &sessions);
    err = err ? err : run(supervisor);
    if (err) {
        fprintf(stderr, "sessions: %s\n", weft_strerror(err));
    }
    int forced = weft_host_stop(host, "maintenance", weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    weft_chan_destroy(logins);
    return err || forced;
}
