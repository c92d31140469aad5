/* The dump: every fiber, what it does, since when, what it waits on, who holds that, and its
 * backtrace.
 *
 * Fibers whose stacks are the same are shown together. A waiting fiber is held only while its stack
 * is copied; a running one is asked by a signal to its thread, with a deadline. The dump takes no
 * lock that a fiber or a stuck worker could keep: what cannot be read in time is shown as such.
 * What it shows of one fiber is of one moment; different fibers are of different moments.
 *
 * Backtraces need libunwind when Weft is built; without it the rest is the same. They use some 16
 * KiB of the caller's stack. docs/dump.md shows both formats.
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
    weft_pool *pool;     /* only its fibers; default: of all pools */
    weft_group *group;   /* only its fibers (weft/dispatcher.h); default: of all */
    size_t max_fibers;   /* no more are looked at; default: all */
    unsigned max_shown;  /* fibers shown one by one for each stack, the first ones; default 8 */
    unsigned max_frames; /* up to 128; default 32 */
    bool no_frames;      /* no backtraces, and no signal */
    /* By which running fibers are asked. Only if it has its default disposition, which it has again
     * afterwards. Threads of pools have all signals blocked but SIGURG (the default) and SIGPROF. <
     * 0: they are not asked. */
    int sample_signal;
    /* How long one may take to answer; default 20 ms. All together: ten times that. */
    int64_t sample_ns;
};

/* Writes the dump; NULL opts: all defaults. From any thread, or from a fiber, which blocks its
 * worker meanwhile. -ENOMEM; -EINVAL: bad options; -EIO or another error of the stream. */
WEFT_API int weft_dump(FILE *out, const struct weft_dump_opts *opts);

/* From now on the signal makes a thread of the library's own write a dump to `fd`, which is
 * borrowed, as is the pool of `opts`, until weft_dump_off_signal. Signals that come while it writes
 * count once. -EBUSY: it is on already, or the signal does not have its default disposition.
 * -EINVAL, -EAGAIN: no thread. */
WEFT_API int weft_dump_on_signal(int signal, int fd, const struct weft_dump_opts *opts);
/* Ends that, when a dump that has begun is complete; the signal has its former disposition again.
 * Not on: a no-op. */
WEFT_API void weft_dump_off_signal(void);

WEFT_END_DECLS
#endif
