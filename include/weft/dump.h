/* The dump of all fibers: state, since when, what each fiber waits on and the holder of that
 * object, and the backtrace. For finding out why a program hangs.
 *
 * Fibers with identical stacks are shown together. A waiting fiber is held only while its stack is
 * copied; a running fiber is sampled by a signal to its thread, with a deadline. The dump takes no
 * lock that a fiber or a stuck worker could keep: information that cannot be read in time is marked
 * as missing. The information about one fiber is from one moment; different fibers are from
 * different moments.
 *
 * Backtraces need libunwind when Weft is built; without it the rest of the dump is the same. They
 * use some 16 KiB of the caller's stack. docs/dump.md shows both formats.
 */
#ifndef WEFT_DUMP_H
#define WEFT_DUMP_H

#include <stdio.h>

#include <weft/pool.h>

WEFT_BEGIN_DECLS

enum weft_dump_format {
    WEFT_DUMP_TEXT,
    WEFT_DUMP_JSON,
};

struct weft_dump_opts {
    enum weft_dump_format format;
    weft_pool *pool;     /* only fibers of this pool; default: all pools */
    weft_group *group;   /* only fibers of this group (weft/dispatcher.h); default: all */
    size_t max_fibers;   /* fibers to inspect; default: all */
    unsigned max_shown;  /* fibers listed individually for each stack, the first ones; default 8 */
    unsigned max_frames; /* up to 128; default 32 */
    bool no_frames;      /* no backtraces, and no signal */
    /* The signal that samples running fibers; used only if it has its default disposition, which is
     * restored afterwards. Threads of pools block all signals but SIGURG (the default) and SIGPROF.
     * < 0: running fibers are not sampled. */
    int sample_signal;
    /* Timeout for sampling one fiber; default 20 ms. All samples together: ten times that. */
    int64_t sample_ns;
};

/* Write the dump.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0; -EINVAL for bad options; -ENOMEM; -EIO or another error of the stream.
 * Context: any thread; a fiber blocks its worker during the call. */
WEFT_API int weft_dump(FILE *out, const struct weft_dump_opts *opts);

/* Write a dump to `fd` whenever the signal arrives, from a thread of the library, until
 * weft_dump_on_signal_stop. Signals that arrive while a dump is written count once.
 *
 * fd: borrowed until weft_dump_on_signal_stop, as is the pool in `opts`.
 * Returns 0; -EBUSY if dumps on a signal are on already or the signal does not have its default
 * disposition; -EINVAL for bad options, a bad signal or descriptor; -EAGAIN if no thread can be
 * created; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_dump_on_signal(int signal, int fd, const struct weft_dump_opts *opts);

/* Stop weft_dump_on_signal: wait until a dump in progress is complete and restore the signal's
 * former disposition. Does nothing if dumps on a signal are off.
 *
 * Context: any thread; blocks the thread while a dump is written. */
WEFT_API void weft_dump_on_signal_stop(void);

WEFT_END_DECLS
#endif
