/* Errors are errno values, because most come from the kernel; but many of the standard texts were
 * written for files and processes. Where Weft's own calls use an errno for something else, the
 * table has a text that is true for both. */
#include "base/error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct {
    int err;
    const char *text;
} texts[] = {
    {0, "Success"},
    /* The end of a wait. */
    {ETIMEDOUT, "Timed out"},
    {ECANCELED, "Cancelled"},
    {EINTR, "Interrupted"},
    {EDEADLK, "Would wait forever (deadlock)"},
    /* Objects that do not exist, or no longer exist. */
    {ESRCH, "No such fiber, actor or process: it has ended"},
    {ENOENT, "Not found: no such name, file or entry"},
    {ENXIO, "Not called from a fiber, or no such device"},
    {EREMOTE, "On another node"},
    {EREMOTEIO, "Name servers failed or did not answer"},
    {EBADFD, "Descriptor was closed meanwhile"},
    {EPIPE, "Closed: no more data can be sent or received"},
    {ENODATA, "Ended before all data came"},
    {ESHUTDOWN, "Stopping or stopped"},
    {EOWNERDEAD, "Ended before it answered"},
    {ETIME, "Peer read nothing for too long"},
    /* Not possible now. */
    {EAGAIN, "At a limit for now: try again later"},
    {EBUSY, "In use, or not ended yet"},
    {ENOBUFS, "Full: no room for another message or buffer"},
    {EALREADY, "Already done or decided"},
    {EINPROGRESS, "In progress, not finished yet"},
    {EEXIST, "Exists already: the name or file is taken"},
    /* Not possible at all. */
    {EINVAL, "Invalid argument or option"},
    {EPERM, "Not permitted"},
    {EOPNOTSUPP, "Not supported here"},
    {ENOSYS, "Not implemented by this kernel, build or receiver"},
    {EMSGSIZE, "Larger than the limit"},
    {EBADMSG, "Malformed data"},
    {ERANGE, "Out of range"},
    {EOVERFLOW, "Too many or too large for its type"},
    {ELOOP, "Depends on itself, or too many links"},
    {ENOTRECOVERABLE, "Failed by a bug in the program"},
};

const char *weft_strerror(int err)
{
    unsigned number = err < 0 ? 0u - (unsigned)err : (unsigned)err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if ((unsigned)texts[i].err == number) {
            return texts[i].text;
        }
    }
    const char *text = number <= 0xffff ? strerrordesc_np((int)number) : NULL;
    return text ? text : "Unknown error";
}

static _Thread_local const char *last __attribute__((tls_model("initial-exec")));

int weft__refuse(int err, const char *why)
{
    last = why;
    return err;
}

/* Never part of a function that switches fibers: the address of the thread-local must not be
 * kept. */
__attribute__((noinline)) const char *weft_last_error(void)
{
    return last ? last : "";
}
