/* Drives a library that has its own socket: it never blocks, but says whether it has to read or to
 * write next, as TLS libraries and database clients do. The fiber waits for that on the library's
 * descriptor and calls the library again; other fibers run meanwhile. Before the library closes the
 * descriptor by itself, the runtime has to forget it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

/* --- the library, which knows nothing of fibers ------------------------------------------- */

enum session_state { SESSION_DONE, SESSION_FAILED, SESSION_WANTS_READ, SESSION_WANTS_WRITE };

enum { UPLOAD_BYTES = 1000000 };

struct session {
    int fd;
    size_t sent;
    uint32_t received; /* what the server says it has */
};

static void session_open(struct session *session, int fd)
{
    *session = (struct session){.fd = fd};
}

/* Uploads some bytes and reads the receipt, as far as possible without waiting. Not inlined, as if
 * it were in a library: a fiber may change its thread in a wait, so a function that waits must not
 * use errno, whose address the compiler may keep. */
__attribute__((noinline)) static enum session_state session_step(struct session *session)
{
    static const char zeros[UPLOAD_BYTES];
    ssize_t n;
    while (session->sent < UPLOAD_BYTES) {
        n = send(session->fd, zeros, UPLOAD_BYTES - session->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN ? SESSION_WANTS_WRITE : SESSION_FAILED;
        }
        session->sent += (size_t)n;
    }
    n = recv(session->fd, &session->received, sizeof session->received, MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN ? SESSION_WANTS_READ : SESSION_FAILED;
    }
    return n == sizeof session->received ? SESSION_DONE : SESSION_FAILED;
}

static void session_close(struct session *session)
{
    close(session->fd);
}

/* --- the library in a fiber ------------------------------------------------------------- */

static int finish_session(struct session *session, int64_t deadline)
{
    int waits[2] = {0, 0};
    enum session_state state;
    while ((state = session_step(session)) != SESSION_DONE) {
        if (state == SESSION_FAILED) {
            return -EIO;
        }
        int event = state == SESSION_WANTS_READ ? WEFT_READABLE : WEFT_WRITABLE;
        int ready = weft_fd_wait(session->fd, event, deadline);
        if (ready < 0) {
            return ready;
        }
        waits[event == WEFT_READABLE]++;
    }
    printf("waits: %s to write, %s to read\n", waits[0] ? "some" : "none",
           waits[1] ? "some" : "none");
    return 0;
}

static int upload(void *arg)
{
    struct session session;
    session_open(&session, *(int *)arg);
    int err = finish_session(&session, weft_after(WEFT_MINUTES(5)));
    weft_fd_release(session.fd); /* -EBADF: there was no wait, so nothing to forget */
    session_close(&session);
    printf("the server has %u bytes\n", session.received);
    return err ? err : session.received == UPLOAD_BYTES ? 0 : -EBADMSG;
}

/* --- the server it talks to ------------------------------------------------------------- */

static int serve(int fd)
{
    static char buf[32 * 1024];
    uint32_t got = 0;
    ssize_t n = 0;
    while (got < UPLOAD_BYTES && (n = weft_read(fd, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        got += (uint32_t)n;
    }
    return n < 0 ? (int)n : weft_write_all(fd, &got, sizeof got, NULL, WEFT_FOREVER);
}

static void *run(void *arg)
{
    weft_scope scope;
    int ends[2];
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return (void *)(intptr_t)-EMFILE;
    }
    weft_scope_open(&scope, NULL);
    int err = weft_scope_spawn(&scope, NULL, upload, &ends[0], NULL);
    err = err ? err : serve(ends[1]);
    weft_close(ends[1]);
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    return (void *)(intptr_t)(failed ? failed : err);
}

int main(void)
{
    void *failure = NULL;
    int err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "foreign_fd: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
