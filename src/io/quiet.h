/* Suppress SIGPIPE around a system call that has no flag for that. The program's disposition of
 * SIGPIPE is not changed, and a SIGPIPE that was pending before stays pending. */
#ifndef WEFT_IO_QUIET_H
#define WEFT_IO_QUIET_H

#include <signal.h>
#include <stdbool.h>

struct weft__quiet {
    sigset_t before;
    bool blocked; /* SIGPIPE was blocked before */
    bool pending; /* a SIGPIPE was pending before */
};

void weft__quiet_begin(struct weft__quiet *quiet);
/* `raised`: the call has failed with EPIPE. errno is preserved. */
void weft__quiet_end(struct weft__quiet *quiet, bool raised);

#endif
