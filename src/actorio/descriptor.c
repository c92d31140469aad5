/* Commands on descriptors: the function for the step, and the fiber function that carries it
 * out. */
#include <weft/actor_io.h>

#include <errno.h>
#include <string.h>

#include <weft/file.h>
#include <weft/net.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "buf/block.h"
#include "command/command_request.h"

/* The request of all these commands. */
struct work {
    struct weft__command_request request; /* first */
    int64_t deadline, offset;
    size_t bytes;
    weft_buf *buf;
    char *address;
    int fd, events;
};

static void drop(struct weft__command_request *request)
{
    struct work *work = (struct work *)(void *)request;
    weft_buf_free(work->buf);
    weft__free(work->address);
}

static int issue(weft_out *out, unsigned id, uint64_t tag, struct work work)
{
    work.request.drop = drop;
    return weft__command_request_issue(out, id, tag, &work.request, sizeof work);
}

static struct work *work_of(struct weft__command_request *request)
{
    return (struct work *)(void *)request;
}

/* --- ready -------------------------------------------------------------------------------- */

int weft_out_ready(weft_out *out, uint64_t tag, int fd, int events, int64_t deadline)
{
    return issue(out, WEFT_COMMAND_READY, tag,
                 (struct work){.fd = fd, .events = events, .deadline = deadline});
}

static int do_ready(struct weft__command_request *request, weft_buf **result)
{
    struct work *work = work_of(request);
    int events = weft_fd_wait(work->fd, work->events, work->deadline);
    if (events < 0) {
        return events;
    }
    *result = weft_buf_copy(&events, sizeof events);
    return *result ? 0 : -ENOMEM;
}

/* --- read and write -------------------------------------------------------------------------- */

int weft_out_read(weft_out *out, uint64_t tag, int fd, size_t bytes, int64_t offset,
                  int64_t deadline)
{
    return issue(out, WEFT_COMMAND_READ, tag,
                 (struct work){.fd = fd, .bytes = bytes, .offset = offset, .deadline = deadline});
}

static int do_read(struct weft__command_request *request, weft_buf **result)
{
    struct work *work = work_of(request);
    weft_buf *buf = weft_buf_alloc(work->bytes, 0);
    if (!buf) {
        return -ENOMEM;
    }
    unsigned char *dest = weft_buf_put(buf, work->bytes);
    ssize_t n = work->offset < 0
                    ? weft_read(work->fd, dest, work->bytes, work->deadline)
                    : weft_pread(work->fd, dest, work->bytes, work->offset, work->deadline);
    if (n < 0) {
        weft_buf_free(buf);
        return (int)n;
    }
    weft_buf_trim(buf, work->bytes - (size_t)n);
    *result = buf;
    return 0;
}

int weft_out_write(weft_out *out, uint64_t tag, int fd, weft_buf *buf, int64_t offset,
                   int64_t deadline)
{
    WEFT__NONNULL(buf);
    return issue(out, WEFT_COMMAND_WRITE, tag,
                 (struct work){.fd = fd, .buf = buf, .offset = offset, .deadline = deadline});
}

static int write_at(const struct work *work)
{
    size_t done = 0;
    while (done < work->buf->len) {
        ssize_t n = weft_pwrite(work->fd, work->buf->data + done, work->buf->len - done,
                                work->offset + (int64_t)done, work->deadline);
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        done += (size_t)n;
    }
    return 0;
}

static int do_write(struct weft__command_request *request, weft_buf **result)
{
    struct work *work = work_of(request);
    (void)result;
    return work->offset >= 0
               ? write_at(work)
               : weft_write_all(work->fd, work->buf->data, work->buf->len, NULL, work->deadline);
}

/* --- accept and connect ----------------------------------------------------------------------- */

/* Frees the buffer of a completion; closes its descriptor if it was not taken. */
static void close_fd(const void *memory, size_t len, void *arg)
{
    int *fd = arg;
    (void)memory, (void)len;
    if (*fd >= 0) {
        weft_close(*fd);
    }
    weft__free(fd);
}

static int give_fd(int fd, weft_buf **result)
{
    if (fd < 0) {
        return fd;
    }
    int *held = weft__alloc(sizeof *held);
    *result = held ? weft_buf_wrap(held, sizeof *held, close_fd, held) : NULL;
    if (!*result) {
        weft__free(held);
        weft_close(fd);
        return -ENOMEM;
    }
    *held = fd;
    return 0;
}

int weft_actor_take_fd(const struct weft_actor_event *event)
{
    int *held = event->buf ? weft__buf_wrap_arg(event->buf, close_fd) : NULL;
    if (!held) {
        return -EBADF;
    }
    int fd = *held;
    *held = -EBADF;
    return fd;
}

int weft_out_accept(weft_out *out, uint64_t tag, int fd, int64_t deadline)
{
    return issue(out, WEFT_COMMAND_ACCEPT, tag, (struct work){.fd = fd, .deadline = deadline});
}

static int do_accept(struct weft__command_request *request, weft_buf **result)
{
    struct work *work = work_of(request);
    return give_fd(weft_accept(work->fd, NULL, work->deadline), result);
}

int weft_out_connect(weft_out *out, uint64_t tag, const char *address, int64_t deadline)
{
    WEFT__NONNULL(address);
    size_t bytes = strlen(address) + 1;
    char *copy = weft__alloc_dirty(bytes);
    if (!copy) {
        return -ENOMEM;
    }
    memcpy(copy, address, bytes);
    return issue(out, WEFT_COMMAND_CONNECT, tag,
                 (struct work){.address = copy, .deadline = deadline});
}

static int do_connect(struct weft__command_request *request, weft_buf **result)
{
    struct work *work = work_of(request);
    return give_fd(weft_dial(work->address, NULL, work->deadline), result);
}

/* --- registration ----------------------------------------------------------------------------- */

static const struct io_command {
    unsigned id;
    weft__command_fiber_fn fn;
} commands[] = {
    {WEFT_COMMAND_READY, do_ready},     {WEFT_COMMAND_READ, do_read},
    {WEFT_COMMAND_WRITE, do_write},     {WEFT_COMMAND_ACCEPT, do_accept},
    {WEFT_COMMAND_CONNECT, do_connect},
};

static int handle(const struct weft_command *command, void *arg)
{
    const struct io_command *io = arg;
    return weft__command_fiber_start(command, io->fn);
}

int weft_host_handle_io(weft_host *host)
{
    WEFT__NONNULL(host);
    int err = 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands && !err; i++) {
        void *arg = (void *)(uintptr_t)&commands[i]; /* only read */
        err = weft__host_handle(host, commands[i].id, handle, arg);
    }
    return err;
}
