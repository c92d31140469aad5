/* Suppress SIGPIPE around a system call that has no flag for that. The program's disposition of
 * SIGPIPE is not changed, and a SIGPIPE that was pending before stays pending. */
#ifndef WEFT_IO_SIGPIPE_H
#define WEFT_IO_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

struct weft__sigpipe_guard {
    sigset_t before;
    bool blocked; /* SIGPIPE was blocked before */
    bool pending; /* a SIGPIPE was pending before */
};

void weft__sigpipe_block(struct weft__sigpipe_guard *quiet);
/* `raised`: the call has failed with EPIPE. errno is preserved. */
void weft__sigpipe_restore(struct weft__sigpipe_guard *quiet, bool raised);

#endif
