/* Frames that are controlled by a text, one letter for each step:
 *   s  sleeps          y  yields            g  continues       n  awaits a future that has failed
 *                                                                 with -ENOLINK
 *   c  calls `sub`     T  tries it          v  returns the value it got
 *   r  returns a value t  throws            x  rethrows        d  is done
 * Body, handle and finally each have their own text, and their own errors and values: B, H, F. The
 * events are recorded.
 */
#ifndef WEFT_TEST_FRAME_SCRIPT_H
#define WEFT_TEST_FRAME_SCRIPT_H

#include "frame/fixture.h"

#define B_CODE (-EDOM)
#define H_CODE (-ERANGE)
#define F_CODE (-EILSEQ)

struct script {
    weft_frame frame;
    const char *name, *body, *handle, *finally;
    weft_frame *sub;
    weft_future *failed;
    struct weft_wait wait;
    const char *next;
    char part;     /* 'B', 'H', 'F' */
    int64_t until; /* of a sleep; 0: a short time */
    int tried;     /* the result of a try */
    void *value;   /* the last value it got */
};

static char script_values[] = "BHF";

static void *script_value(char part)
{
    return strchr(script_values, part);
}

static int script_code(char part)
{
    return part == 'B' ? B_CODE : part == 'H' ? H_CODE : F_CODE;
}

static void script_note(const struct script *self, char what, int code)
{
    char text[32];
    snprintf(text, sizeof text, "%s%c%s", self->name, what,
             code == B_CODE             ? "B"
             : code == H_CODE           ? "H"
             : code == F_CODE           ? "F"
             : code == -ECANCELED       ? "cancel"
             : code == -EINTR           ? "interrupt"
             : code == -ENOLINK         ? "nolink"
             : code == -ENOTRECOVERABLE ? "fatal"
             : code                     ? "?"
                                        : "");
    notes_add(text);
}

static enum weft_step script_step(weft_frame *f, struct weft_got got)
{
    SELF(script);
    char does = *self->next++;
    self->value = got.value;
    if (got.status) {
        self->tried = got.status;
    }
    switch (does) {
    case 's':
        return weft_frame_sleep(f, self->until ? self->until : weft_after(1000),
                                WEFT_THEN(script_step));
    case 'y':
        return weft_frame_yield(f, WEFT_THEN(script_step));
    case 'g':
        return weft_frame_continue(f, NULL, WEFT_THEN(script_step));
    case 'n':
        return weft_frame_await_future(f, &self->wait, self->failed, WEFT_FOREVER,
                                       WEFT_THEN(script_step));
    case 'c':
        return weft_frame_call(f, self->sub, WEFT_THEN(script_step));
    case 'T':
        return weft_frame_try(f, self->sub, WEFT_THEN(script_step));
    case 'v':
        return weft_frame_return(f, self->value);
    case 'r':
        return weft_frame_return(f, script_value(self->part));
    case 't':
        return weft_frame_throw(f, script_code(self->part), "%s threw in %c", self->name,
                                self->part);
    case 'x':
        return weft_frame_rethrow(f);
    case 'd':
        return weft_frame_done(f);
    default:
        check_fail(__FILE__, __LINE__, "%s: no step %c", self->name, does);
    }
}

static enum weft_step script_start(weft_frame *f, struct weft_got got)
{
    SELF(script);
    self->next = self->body;
    self->part = 'B';
    return script_step(f, got);
}

static enum weft_step script_handle(weft_frame *f, const weft_error *error)
{
    SELF(script);
    script_note(self, '!', weft_error_code(error));
    self->next = self->handle;
    self->part = 'H';
    return script_step(f, (struct weft_got){0});
}

static enum weft_step script_finally(weft_frame *f)
{
    SELF(script);
    script_note(self, '.', 0);
    self->next = self->finally;
    self->part = 'F';
    return script_step(f, (struct weft_got){0});
}

static const struct weft_frame_kind script_kind = {
    .name = "script", .start = script_start, .handle = script_handle, .finally = script_finally};
static const struct weft_frame_kind script_without_handle = {
    .name = "script", .start = script_start, .finally = script_finally};

/* A frame without handle lets every error pass. */
static struct script script(const char *name, const char *body, const char *handle,
                            const char *finally)
{
    struct script out = {.name = name, .body = body, .handle = handle, .finally = finally};
    weft_frame_init(&out.frame, handle ? &script_kind : &script_without_handle);
    return out;
}

/* `outer` calls `inner` and returns its result. */
__attribute__((unused)) static int script_run(const struct home *home, struct script *outer,
                                              struct script *inner, void **result)
{
    outer->sub = &inner->frame;
    return home_run(home, &outer->frame, result);
}

#endif
