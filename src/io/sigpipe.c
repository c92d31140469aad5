#include "io/sigpipe.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static void sigpipe_alone(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
}

void weft__sigpipe_block(struct weft__sigpipe_guard *quiet)
{
    sigset_t pipe, pending;
    sigpipe_alone(&pipe);
    pthread_sigmask(SIG_BLOCK, &pipe, &quiet->before);
    quiet->blocked = sigismember(&quiet->before, SIGPIPE) == 1;
    /* If the signal was not blocked, it cannot have been pending. */
    quiet->pending =
        quiet->blocked && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

void weft__sigpipe_restore(struct weft__sigpipe_guard *quiet, bool raised)
{
    const struct timespec now = {0};
    int err = errno;
    sigset_t pipe;
    if (raised && !quiet->pending) {
        sigpipe_alone(&pipe);
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR) {
        }
    }
    if (!quiet->blocked) {
        pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
    }
    errno = err;
}
