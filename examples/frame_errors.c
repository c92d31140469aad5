/* Errors of frame fibers in a log: one function gets every error that ended a fiber, and writes it
 * as records: the error, the errors that caused it or that it suppressed, and where the frames
 * were.
 *
 * The fiber here reads a configuration. Its parser fails, so the load fails because of that; then
 * the cleanup of the load fails as well. No error is lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

/* --- the log -------------------------------------------------------------------------------- */

static char log_text[1024]; /* written before the fiber's end, read after its join */

static void record(const char *relation, const weft_error *error, int depth)
{
    size_t used = strlen(log_text);
    size_t frames = weft_error_frames(error);
    used += (size_t)snprintf(log_text + used, sizeof log_text - used, "%*s%s %s (%s)", depth * 2,
                             "", relation, weft_error_message(error),
                             weft_strerror(weft_error_code(error)));
    for (size_t i = 0; i < frames && used < sizeof log_text; i++) {
        struct weft_error_frame frame = weft_error_frame(error, i); /* the innermost first */
        used += (size_t)snprintf(log_text + used, sizeof log_text - used, "%s%s:%s",
                                 i ? " < " : " in ", frame.frame, frame.step);
    }
    snprintf(log_text + used, used < sizeof log_text ? sizeof log_text - used : 0, "\n");
    if (weft_error_cause(error)) {
        record("caused by", weft_error_cause(error), depth + 1);
    }
    if (weft_error_suppressed(error)) {
        record("suppressed", weft_error_suppressed(error), depth + 1);
    }
}

static void log_error(weft_fiber fiber, const char *name, const weft_error *error)
{
    char handle[32];
    weft_fiber_format(fiber, handle, sizeof handle);
    printf("fiber %s (%s) failed\n", handle, name);
    record("error:", error, 0);
}

/* --- the program that fails ----------------------------------------------------------------- */

struct parse {
    weft_frame frame;
    const char *line;
};

static enum weft_step parse_line(weft_frame *f, struct weft_got got)
{
    const char *line = ((struct parse *)f)->line;
    (void)got;
    return strchr(line, '=') ? weft_frame_return(f, NULL)
                             : weft_frame_throw(f, -EBADMSG, "no '=' in \"%s\"", line);
}

static const struct weft_frame_kind parse_kind = {.name = "parse", .start = parse_line};

struct load {
    weft_frame frame;
    struct parse parse;
};

static enum weft_step load_done(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step load_begin(weft_frame *f, struct weft_got got)
{
    struct load *self = (struct load *)f;
    (void)got;
    weft_frame_init(&self->parse.frame, &parse_kind);
    self->parse.line = "port 80";
    return weft_frame_call(f, &self->parse.frame, WEFT_THEN(load_done));
}

static enum weft_step load_handle(weft_frame *f, const weft_error *error)
{
    return weft_frame_throw_from(f, -EINVAL, error, "server.conf is not usable");
}

static enum weft_step load_finally(weft_frame *f)
{
    return weft_frame_throw(f, -EIO, "server.conf cannot be closed");
}

static const struct weft_frame_kind load_kind = {
    .name = "load", .start = load_begin, .handle = load_handle, .finally = load_finally};

struct boot {
    weft_frame frame;
    struct load load;
};

static enum weft_step boot_done(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step boot_begin(weft_frame *f, struct weft_got got)
{
    struct boot *self = (struct boot *)f;
    (void)got;
    weft_frame_init(&self->load.frame, &load_kind);
    return weft_frame_call(f, &self->load.frame, WEFT_THEN(boot_done));
}

static const struct weft_frame_kind boot_kind = {.name = "boot", .start = boot_begin};

static void *run(void *arg)
{
    static struct boot boot;
    weft_fiber fiber;
    weft_frame_init(&boot.frame, &boot_kind);
    int err = weft_spawn_frame(&fiber, &boot.frame, &(struct weft_fiber_opts){.name = "boot"});
    *(int *)arg = err ? err : weft_join(fiber, NULL, WEFT_FOREVER);
    return NULL;
}

int main(void)
{
    int status = 0;
    weft_frame_on_error(log_error);
    int err = weft_run(NULL, run, &status, NULL, WEFT_FOREVER);
    weft_frame_on_error(NULL);
    fputs(log_text, stdout);
    /* The join gets the code of the outermost error. */
    if (err || status != -EIO || !strstr(log_text, "suppressed server.conf is not usable") ||
        !strstr(log_text, "caused by no '=' in \"port 80\"")) {
        fprintf(stderr, "frame_errors: the log is not complete\n");
        return 1;
    }
    return 0;
}
