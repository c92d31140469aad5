/* A health check as one actor that never blocks. It reads a list of addresses from a file, on a
 * thread that may block, connects to all of them at once, and tries those that refuse again after a
 * pause that doubles. It ends when every address has answered or has had its last attempt. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { TARGETS = 2, ATTEMPTS = 3 };

static char list_path[64];

/* --- reading the list, on a thread of the blocking pool ------------------------------------- */

static int read_list(const weft_buf *input, weft_buf **output, void *arg)
{
    char text[512];
    const char *path = (const char *)input->data;
    (void)arg;
    FILE *file = fopen(path, "r");
    if (!file) {
        return -ENOENT;
    }
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    *output = weft_buf_copy(text, n + 1);
    return *output ? 0 : -ENOMEM;
}

/* --- the checker ---------------------------------------------------------------------------- */

enum { LIST, CONNECT, PAUSE }; /* the tag of a command: what + 4 * target */

struct target {
    char address[WEFT_ADDR_STRLEN];
    int attempts;
    bool healthy;
};

struct checker {
    struct target targets[TARGETS];
    int count, open; /* open: targets without a final result */
};

static int connect_to(struct checker *checker, int i, weft_out *out)
{
    struct target *target = &checker->targets[i];
    target->attempts++;
    return weft_out_connect(out, CONNECT + 4 * (uint64_t)i, target->address,
                            weft_after(WEFT_MINUTES(1)));
}

static int on_list(struct checker *checker, char *list, weft_out *out)
{
    int err = 0;
    for (char *end, *line = list; (end = strchr(line, '\n')) && !err; line = end + 1) {
        if (checker->count == TARGETS) {
            return -E2BIG;
        }
        struct target *target = &checker->targets[checker->count];
        snprintf(target->address, sizeof target->address, "%.*s", (int)(end - line), line);
        checker->open++;
        err = connect_to(checker, checker->count++, out);
    }
    return err;
}

static int on_connect(struct checker *checker, const struct weft_actor_event *event, weft_out *out)
{
    struct target *target = &checker->targets[event->tag / 4];
    target->healthy = !event->error;
    if (target->healthy) {
        weft_close(weft_actor_take_fd(event));
    } else if (target->attempts < ATTEMPTS) {
        int64_t pause = WEFT_MS(1) << target->attempts;
        return weft_out_at(out, event->tag - CONNECT + PAUSE, weft_after(pause));
    }
    printf("target %d: %s after %d attempts\n", (int)(event->tag / 4),
           event->error ? weft_strerror(event->error) : "healthy", target->attempts);
    checker->open--;
    return 0;
}

static int check(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct checker *checker = weft_actor_state(self);
    int err = 0;
    if (n == 0) { /* the first step */
        return weft_out_blocking(out, LIST, NULL, read_list, NULL,
                                 weft_buf_copy(list_path, sizeof list_path));
    }
    for (size_t i = 0; i < n && !err; i++) {
        if (events[i].kind != WEFT_EVENT_COMPLETE) {
            return -ECANCELED;
        }
        switch (events[i].tag % 4) {
        case LIST:
            err = events[i].error ? events[i].error
                                  : on_list(checker, (char *)events[i].buf->data, out);
            break;
        case CONNECT:
            err = on_connect(checker, &events[i], out);
            break;
        default:
            err = connect_to(checker, (int)(events[i].tag / 4), out);
        }
    }
    if (checker->open == 0) {
        weft_out_done(out, weft_buf_copy(checker, sizeof *checker));
    }
    return err;
}

static const struct weft_actor_kind checker_kind = {
    .name = "health check", .state_bytes = sizeof(struct checker), .step = check};

/* --- what is checked ------------------------------------------------------------------------ */

/* Writes a list of one service that runs and one that does not. */
static int write_list(const char *folder, int listener)
{
    struct weft_addr addr;
    char text[WEFT_ADDR_STRLEN];
    int err = weft_addr_local(listener, &addr);
    snprintf(list_path, sizeof list_path, "%s/list", folder);
    FILE *file = err ? NULL : fopen(list_path, "w");
    if (!file) {
        return err ? err : -EIO;
    }
    weft_addr_format(&addr, text, sizeof text);
    fprintf(file, "%s\nunix:%s/nobody.sock\n", text, folder);
    return fclose(file) ? -EIO : 0;
}

/* Returns the checker's state at its end. */
static int run_check(struct checker *result)
{
    weft_host *host;
    weft_buf *state = NULL;
    int err = weft_host_create(&host, &(struct weft_host_opts){.workers = 1});
    if (err) {
        return err;
    }
    err = weft_host_handle_io(host);
    err = err ? err : weft_actor_exec(host, &state, &checker_kind, NULL, NULL, WEFT_FOREVER);
    if (!err && state) {
        memcpy(result, state->data, sizeof *result);
    }
    weft_buf_free(state);
    weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    return err;
}

int main(void)
{
    char folder[] = "/tmp/weft_health_XXXXXX";
    struct checker result = {0};
    int listener = weft_listen("127.0.0.1:0", NULL);
    if (listener < 0 || !mkdtemp(folder)) {
        perror("health_check");
        return 1;
    }
    int err = write_list(folder, listener);
    err = err ? err : run_check(&result);
    unlink(list_path);
    rmdir(folder);
    weft_close(listener);
    if (err) {
        fprintf(stderr, "health_check: %s\n", weft_strerror(err));
    }
    const struct target *up = &result.targets[0], *down = &result.targets[1];
    bool ok = up->healthy && !down->healthy && down->attempts == ATTEMPTS;
    return err || !ok;
}
