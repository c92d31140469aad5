/* Quiet: a system call that would raise SIGPIPE in this thread, and has no flag against it, raises
 * none. What the program does with SIGPIPE is left as it is, and so is one that was pending
 * before. */
#ifndef WEFT_IO_QUIET_H
#define WEFT_IO_QUIET_H

#include <signal.h>
#include <stdbool.h>

struct weft__quiet {
    sigset_t before;
    bool blocked; /* it was before */
    bool pending; /* one was before */
};

void weft__quiet_begin(struct weft__quiet *quiet);
/* `raised`: the call has failed with EPIPE. errno is kept. */
void weft__quiet_end(struct weft__quiet *quiet, bool raised);

#endif
