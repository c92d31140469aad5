/* A console for a running system: it lists the actors of all hosts, asks an actor for its
 * statistics, and stops or kills an actor. Actors are named by the text of their PID, as an
 * operator copies it from the list. Here a script types the commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

/* --- the system: two hosts with a counter each --------------------------------------------- */

static int count(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    long *hits = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            printf("  asked to end: %s\n", events[i].buf ? (char *)events[i].buf->data : "");
            weft_out_done(out, weft_buf_copy(hits, sizeof *hits));
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            ++*hits;
            weft_actor_reply(events[i].tag, 0, NULL);
        }
    }
    return 0;
}

static int write_stats(weft_actor *self, char *buf, size_t size)
{
    const long *hits = weft_actor_state(self);
    return snprintf(buf, size, "%ld hits", *hits);
}

static const struct weft_actor_kind counter = {
    .name = "counter", .state_bytes = sizeof(long), .step = count, .stats = write_stats};

/* --- the console ---------------------------------------------------------------------------- */

static bool print_actor(const struct weft_actor_info *info, void *arg)
{
    char pid[64];
    int *actors = arg;
    weft_pid_format(info->pid, pid, sizeof pid);
    printf("  %s %s %s\n", pid, info->kind, weft_actor_state_name(info->state));
    ++*actors;
    return true;
}

static bool print_host(weft_host *host, void *arg)
{
    printf("  host %s\n", weft_host_name(host));
    weft_actor_each(host, print_actor, arg);
    return true;
}

static int print_statistics(weft_pid pid)
{
    char text[128];
    int n = weft_actor_stats(pid, text, sizeof text, weft_after(WEFT_MINUTES(1)));
    if (n >= 0) {
        printf("  %s\n", text);
    }
    return n;
}

/* Runs one line: "list", "stats PID", "stop PID" or "kill PID". Returns a count or 0, or an
 * error. */
static int execute(const char *line)
{
    char verb[8], text[64];
    weft_pid pid;
    printf("> %s\n", line);
    int words = sscanf(line, "%7s %63s", verb, text);
    int err = words < 1 ? -EINVAL : words == 2 ? weft_pid_parse(&pid, text) : 0;
    if (!err && words == 1 && strcmp(verb, "list") == 0) {
        weft_host_each(print_host, &err); /* counts the actors */
    } else if (!err && words == 2 && strcmp(verb, "stats") == 0) {
        err = print_statistics(pid);
    } else if (!err && words == 2 && strcmp(verb, "stop") == 0) {
        err = weft_actor_cancel(pid, "an operator wants it");
    } else if (!err && words == 2 && strcmp(verb, "kill") == 0) {
        err = weft_actor_kill(pid);
    } else if (!err) {
        err = -EINVAL;
    }
    if (err < 0) {
        printf("  error: %s\n", weft_strerror(err));
    }
    return err;
}

static int execute_on(const char *verb, weft_pid pid)
{
    char text[64], line[80];
    weft_pid_format(pid, text, sizeof text);
    snprintf(line, sizeof line, "%s %s", verb, text);
    return execute(line);
}

static bool run_script(weft_pid a, weft_pid b)
{
    weft_buf *result = NULL;
    for (int i = 0; i < 3; i++) {
        weft_actor_call(a, NULL, "hit", NULL, WEFT_FOREVER);
    }
    bool ok = execute("list") == 2;
    ok &= execute_on("stats", a) == (int)strlen("3 hits");
    ok &= execute_on("stop", a) == 0;
    ok &= weft_actor_join(a, &result, WEFT_FOREVER) == 0 && result &&
          *(long *)(void *)result->data == 3;
    ok &= execute_on("kill", b) == 0;
    ok &= weft_actor_join(b, NULL, WEFT_FOREVER) == -ECANCELED;
    ok &= execute_on("stats", b) == -ESRCH;
    ok &= execute("kill <everything>") == -EINVAL;
    ok &= execute("list") == 0;
    weft_buf_free(result);
    return ok;
}

int main(void)
{
    weft_host *web, *jobs;
    weft_pid a, b;
    if (weft_host_create(&web, &(struct weft_host_opts){.name = "web", .workers = 1}) ||
        weft_host_create(&jobs, &(struct weft_host_opts){.name = "jobs", .workers = 1}) ||
        weft_actor_spawn(web, &a, &counter, NULL, NULL) ||
        weft_actor_spawn(jobs, &b, &counter, NULL, NULL)) {
        fprintf(stderr, "admin_console: cannot start\n");
        return 1;
    }
    bool ok = run_script(a, b);
    int forced = weft_host_stop(web, NULL, weft_after(WEFT_MINUTES(1)));
    forced |= weft_host_stop(jobs, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(web);
    weft_host_destroy(jobs);
    if (!ok || forced) {
        fprintf(stderr, "admin_console: a command did not do what it should\n");
        return 1;
    }
    return 0;
}
