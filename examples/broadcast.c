/* One frame for many connections: every peer has an outbox, and all outboxes share one copy of the
 * frame.
 *
 * usage: broadcast [PEERS [FRAMES]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/weft.h>

static size_t peers = 200, frames = 20;

struct peer {
    weft_outbox outbox;
    int ours, theirs;
    weft_fiber writer, reader;
};

/* The connection's fiber: writes posted frames, many at once. */
static void *serve(void *arg)
{
    struct peer *peer = arg;
    int err = weft_outbox_run(&peer->outbox, WEFT_FOREVER);
    weft_shutdown(peer->ours, SHUT_WR);
    return (void *)(long)err;
}

/* A client that counts lines. */
static void *receive(void *arg)
{
    struct peer *peer = arg;
    weft_reader reader;
    const char *line;
    long n = 0;
    weft_reader_init(&reader, peer->theirs, NULL);
    while (weft_reader_read_line(&reader, &line, WEFT_FOREVER) >= 0) {
        n++;
    }
    weft_reader_deinit(&reader);
    return (void *)n;
}

static int connect_peer(struct peer *peer)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -1;
    }
    peer->ours = ends[0];
    peer->theirs = ends[1];
    weft_outbox_init(&peer->outbox, peer->ours, NULL);
    return weft_spawn(&peer->writer, serve, peer, NULL) ||
           weft_spawn(&peer->reader, receive, peer, NULL);
}

static void *app(void *arg)
{
    struct peer *all = calloc(peers, sizeof *all);
    weft_outbox **boxes = calloc(peers, sizeof *boxes);
    size_t taken = 0, received = 0;
    for (size_t i = 0; i < peers; i++) {
        if (connect_peer(&all[i]) != 0) {
            return (void *)1;
        }
        boxes[i] = &all[i].outbox;
    }
    int64_t begin = weft_now();
    for (size_t i = 0; i < frames; i++) {
        char text[64];
        int len = snprintf(text, sizeof text, "frame %zu for everybody\n", i);
        weft_buf *frame = weft_buf_copy(text, (size_t)len);
        taken += weft_outbox_post_all(boxes, peers, frame, NULL); /* a full outbox refuses it */
        weft_buf_free(frame);
    }
    for (size_t i = 0; i < peers; i++) {
        void *lines = NULL;
        weft_outbox_close(&all[i].outbox);
        weft_join(all[i].writer, NULL, WEFT_FOREVER);
        weft_join(all[i].reader, &lines, WEFT_FOREVER);
        received += (size_t)lines;
        weft_close(all[i].ours);
        weft_close(all[i].theirs);
        weft_outbox_deinit(&all[i].outbox);
    }
    printf("%zu frames to %zu peers: %zu taken, %zu received, %.1f ms\n", frames, peers, taken,
           received, (double)(weft_now() - begin) / 1e6);
    free(boxes);
    free(all);
    return taken == received && taken == peers * frames ? arg : (void *)1;
}

int main(int argc, char **argv)
{
    void *failed = NULL;
    peers = argc > 1 ? strtoul(argv[1], NULL, 10) : peers;
    frames = argc > 2 ? strtoul(argv[2], NULL, 10) : frames;
    return weft_run(&failed, app, NULL, NULL, WEFT_FOREVER) == 0 && !failed ? 0 : 1;
}
