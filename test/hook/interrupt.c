/* An interrupt may end the wait of a call that still succeeds, because data arrived or a part was
 * transferred. The interrupt is not lost: it ends the fiber's next wait. */
/* labels: valgrind */
#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>

#include "hook/hooked.h"

enum { MANY = 4 << 20 };

static weft_fiber waiter;
static int ends[2];

/* Both at once while the waiter waits: there is one worker, and this fiber runs on it. */
static void *interrupts_and_writes(void *arg)
{
    CHECK_EQ(weft_fiber_interrupt(waiter), 0);
    if (arg) {
        CHECK_EQ(write(ends[1], "x", 1), 1);
    }
    return NULL;
}

static void begin(bool writes)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    waiter = weft_self();
    CHECK_EQ(weft_spawn(NULL, interrupts_and_writes, writes ? ends : NULL, NULL), 0);
}

static void is_left(void)
{
    CHECK(weft_fiber_is_interrupted());
    CHECK_EQ(weft_sleep(weft_after(1000)), -EINTR);
    CHECK(!weft_fiber_is_interrupted());
    close(ends[0]);
    close(ends[1]);
}

IN_FIBER(successful_poll_keeps_interrupt_pending)
{
    begin(true);
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    CHECK_EQ(poll(&one, 1, -1), 1);
    is_left();
}

IN_FIBER(successful_poll_of_two_keeps_interrupt_pending)
{
    begin(true);
    struct pollfd two[] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
    CHECK_EQ(poll(two, 2, -1), 1);
    is_left();
}

IN_FIBER(successful_select_keeps_interrupt_pending)
{
    begin(true);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    CHECK_EQ(select(ends[0] + 1, &in, NULL, NULL, NULL), 1);
    is_left();
}

IN_FIBER(partial_recv_keeps_interrupt_pending)
{
    char bytes[8];
    begin(false);
    CHECK_EQ(write(ends[1], "abc", 3), 3);
    CHECK_EQ(recv(ends[0], bytes, sizeof bytes, MSG_WAITALL), 3);
    is_left();
}

IN_FIBER(partial_send_keeps_interrupt_pending)
{
    char *bytes = calloc(1, MANY);
    CHECK(bytes);
    begin(false);
    ssize_t sent = send(ends[0], bytes, MANY, 0);
    CHECK(sent > 0 && sent < MANY);
    is_left();
    free(bytes);
}

IN_FIBER(partial_pipe_write_keeps_interrupt_pending)
{
    char *bytes = calloc(1, MANY);
    int pipes[2];
    CHECK(bytes);
    CHECK_EQ(pipe(pipes), 0);
    begin(false);
    ssize_t put = write(pipes[1], bytes, MANY);
    CHECK(put > 0 && put < MANY);
    is_left();
    close(pipes[0]);
    close(pipes[1]);
    free(bytes);
}

/* Nothing was transferred: the call itself fails, and no interrupt stays pending. */
IN_FIBER(recv_of_nothing_returns_eintr_and_clears_interrupt)
{
    char byte;
    begin(false);
    CHECK_FAILS(recv(ends[0], &byte, 1, 0), EINTR);
    CHECK(!weft_fiber_is_interrupted());
    close(ends[0]);
    close(ends[1]);
}
