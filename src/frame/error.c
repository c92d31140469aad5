/* Errors of frames: code, message, trace of frames, cause. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "frame/frame.h"

#define MAX_FRAMES 64u /* of a deeper fiber, the innermost ones */

struct weft_error {
    int code;
    unsigned frames;
    weft_error *cause, *suppressed;
    struct weft_error_frame *trace;
    char *message;
    struct weft__ended ended; /* the wait that a cancel or an interrupt ended; kind NULL: none */
    _Alignas(struct weft_error_frame) char storage[]; /* the trace, then the message */
};

/* The error when there is no memory for one. Never written to, never freed. */
static weft_error no_memory = {.code = -ENOMEM};

static unsigned depth_of(const weft_frame *frame)
{
    unsigned depth = 0;
    for (; frame && depth < MAX_FRAMES; frame = frame->caller) {
        depth++;
    }
    return depth;
}

static struct weft_error_frame frame_of(const weft_frame *frame)
{
    const struct weft_resume_point *at = frame->next;
    static const char *const first[] = {
        [WEFT__FRAME_BODY] = "start",
        [WEFT__FRAME_HANDLING] = "handle",
        [WEFT__FRAME_FINALLY] = "finally",
    };
    if (!at) {
        return (struct weft_error_frame){.frame = frame->kind->name, .step = first[frame->phase]};
    }
    return (struct weft_error_frame){
        .frame = frame->kind->name, .step = at->name, .file = at->file, .line = at->line};
}

weft_error *weft__error_make(const weft_frame *frame, int code, const char *format, va_list args)
{
    char message[256];
    int length = format ? vsnprintf(message, sizeof message, format, args) : 0;
    size_t used = length < 0                        ? 0
                  : (size_t)length < sizeof message ? (size_t)length
                                                    : sizeof message - 1;
    unsigned depth = depth_of(frame);
    weft_error *error =
        weft__alloc(sizeof *error + depth * sizeof(struct weft_error_frame) + used + 1);
    if (!error) {
        return &no_memory;
    }
    *error = (weft_error){.code = code, .frames = depth};
    error->trace = (struct weft_error_frame *)(void *)error->storage;
    error->message = (char *)(error->trace + depth);
    memcpy(error->message, message, used);
    error->message[used] = 0;
    for (unsigned i = 0; i < depth; i++, frame = frame->caller) {
        error->trace[i] = frame_of(frame);
    }
    return error;
}

weft_error *weft__error_new(const weft_frame *frame, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_error *error = weft__error_make(frame, code, format, args);
    va_end(args);
    return error;
}

void weft__error_free(weft_error *error)
{
    while (error && error != &no_memory) {
        weft_error *suppressed = error->suppressed;
        weft__error_free(error->cause);
        weft__free(error);
        error = suppressed;
    }
}

void weft__error_suppress(weft_error *error, weft_error *earlier)
{
    if (error == &no_memory || earlier == error) {
        weft__error_free(earlier == error ? NULL : earlier);
        return;
    }
    weft_error **at = &error->suppressed;
    while (*at) {
        at = &(*at)->suppressed;
    }
    *at = earlier;
}

static weft_error *copy(const weft_error *from)
{
    size_t bytes = sizeof *from + from->frames * sizeof(struct weft_error_frame) +
                   strlen(weft_error_message(from)) + 1;
    weft_error *to = weft__alloc(bytes);
    if (!to || from == &no_memory) {
        weft__free(to);
        return &no_memory;
    }
    memcpy(to, from, bytes);
    to->trace = (struct weft_error_frame *)(void *)to->storage;
    to->message = (char *)(to->trace + to->frames);
    to->cause = from->cause ? copy(from->cause) : NULL;
    to->suppressed = NULL;
    return to;
}

weft_error *weft__error_from_wait(const weft_frame *frame, int code, const struct weft__ended *wait,
                                  bool ended)
{
    char text[96];
    weft__ended_format(wait, text, sizeof text);
    weft_error *error = weft__error_new(frame, code, "%s", text);
    if (ended && error != &no_memory) {
        error->ended = *wait;
    }
    return error;
}

struct weft__ended weft__error_ended_wait(const weft_error *error)
{
    return error->ended;
}

void weft__error_set_cause(weft_error *error, const weft_error *cause)
{
    if (error != &no_memory && cause) {
        error->cause = copy(cause);
    }
}

/* --- throwing ---------------------------------------------------------------------------- */

static enum weft_step throw_error(weft_frame *frame, int code, const weft_error *cause,
                                  const char *format, va_list args)
{
    WEFT__REQUIRE(code < 0, "frame %s throws %d: an error code must be a negative errno",
                  frame->kind->name, code);
    if (weft__frame_set_act(frame, WEFT__ACT_THROW)) {
        weft_error *error = weft__error_make(frame, code, format, args);
        weft__error_set_cause(error, cause);
        frame->wait = error;
    }
    return WEFT_RETURN;
}

enum weft_step weft_frame_throw(weft_frame *frame, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum weft_step step = throw_error(frame, code, NULL, format, args);
    va_end(args);
    return step;
}

enum weft_step weft_frame_throw_from(weft_frame *frame, int code, const weft_error *cause,
                                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum weft_step step = throw_error(frame, code, cause, format, args);
    va_end(args);
    return step;
}

enum weft_step weft_frame_rethrow(weft_frame *frame)
{
    weft__frame_set_act(frame, WEFT__ACT_RETHROW);
    return WEFT_RETURN;
}

/* --- accessors ----------------------------------------------------------------------------- */

int weft_error_code(const weft_error *error)
{
    return error->code;
}

const char *weft_error_message(const weft_error *error)
{
    return error->message ? error->message : "";
}

const weft_error *weft_error_cause(const weft_error *error)
{
    return error->cause;
}

const weft_error *weft_error_suppressed(const weft_error *error)
{
    return error->suppressed;
}

size_t weft_error_frames(const weft_error *error)
{
    return error->frames;
}

struct weft_error_frame weft_error_frame(const weft_error *error, size_t i)
{
    WEFT__REQUIRE(i < error->frames, "weft_error_frame: index %zu of an error with %u frames", i,
                  error->frames);
    return error->trace[i];
}

static void print(const weft_error *error, const char *what, FILE *out)
{
    const char *message = weft_error_message(error);
    const char *text = strerrordesc_np(-error->code) ? weft_strerror(error->code) : "unknown error";
    fprintf(out, "%s%s%s%s\n", what, text, message[0] ? ": " : "", message);
    for (unsigned i = 0; i < error->frames; i++) {
        const struct weft_error_frame *at = &error->trace[i];
        fprintf(out, "    in %s, %s", at->frame, at->step);
        if (at->file) {
            fprintf(out, " (%s:%u)", at->file, at->line);
        }
        fputc('\n', out);
    }
    if (error->cause) {
        print(error->cause, "  caused by: ", out);
    }
    if (error->suppressed) {
        print(error->suppressed, "  suppressed: ", out);
    }
}

void weft_error_dump(const weft_error *error, FILE *out)
{
    print(error, "error: ", out);
}

/* --- at the bottom of a fiber ----------------------------------------------------------------- */

static void report(weft_fiber fiber, const char *name, const weft_error *error)
{
    char text[32];
    weft_fiber_format(fiber, text, sizeof text);
    flockfile(stderr);
    fprintf(stderr, "weft: fiber %s%s%s ended by an ", text, name[0] ? " " : "", name);
    weft_error_dump(error, stderr);
    funlockfile(stderr);
}

static _Atomic(weft_error_fn) listener = report;

weft_error_fn weft_frame_on_error(weft_error_fn fn)
{
    return atomic_exchange_explicit(&listener, fn ? fn : report, memory_order_acq_rel);
}

void weft__error_report(weft_fiber fiber, const char *name, const weft_error *error)
{
    atomic_load_explicit(&listener, memory_order_acquire)(fiber, name, error);
}
