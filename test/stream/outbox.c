/* One frame for many receivers: shared, not copied; slow receivers are detected; nothing leaks. */
#include <weft/stream.h>

#include <stdatomic.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define PEERS 50
#define FRAMES 40
#define FRAME 3000

struct peer {
    weft_outbox outbox;
    int ends[2];
    weft_fiber writer, reader;
};

static struct peer peers[PEERS];
static weft_outbox *boxes[PEERS];
static atomic_int released;

static void *runs(void *arg)
{
    struct peer *peer = arg;
    int err = weft_outbox_run(&peer->outbox, WEFT_FOREVER);
    CHECK_EQ(weft_shutdown(peer->ends[0], SHUT_WR), 0);
    return (void *)(intptr_t)err;
}

/* Every frame arrives complete and in order: frame f is FRAME bytes of value f. */
static void *reads(void *arg)
{
    struct peer *peer = arg;
    unsigned char frame[FRAME], expected[FRAME];
    for (int f = 0; f < FRAMES; f++) {
        memset(expected, f, sizeof expected);
        CHECK_EQ(weft_read_full(peer->ends[1], frame, sizeof frame, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(memcmp(frame, expected, sizeof frame), 0);
    }
    CHECK_EQ(weft_read(peer->ends[1], frame, 1, WEFT_FOREVER), 0);
    return NULL;
}

static void on_release(const void *memory, size_t len, void *arg)
{
    CHECK_EQ(len, FRAME);
    free((void *)(uintptr_t)memory);
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* A frame whose memory is counted, so that the test sees a copy or a leak. */
static weft_buf *frame_of(int value)
{
    void *memory = malloc(FRAME);
    CHECK(memory);
    memset(memory, value, FRAME);
    weft_buf *frame = weft_buf_wrap(memory, FRAME, on_release, &released);
    CHECK(frame);
    return frame;
}

static void open_peer(struct peer *peer, const struct weft_outbox_opts *opts)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peer->ends), 0);
    weft_outbox_init(&peer->outbox, peer->ends[0], opts);
}

static int close_peer(struct peer *peer)
{
    void *result;
    CHECK_EQ(weft_join(peer->writer, &result, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(peer->ends[0]), 0);
    CHECK_EQ(weft_close(peer->ends[1]), 0);
    weft_outbox_deinit(&peer->outbox);
    return (int)(intptr_t)result;
}

static void *fans_out(void *arg)
{
    atomic_store(&released, 0);
    for (int i = 0; i < PEERS; i++) {
        open_peer(&peers[i], NULL);
        boxes[i] = &peers[i].outbox;
        CHECK_EQ(weft_spawn(&peers[i].writer, runs, &peers[i], NULL), 0);
        CHECK_EQ(weft_spawn(&peers[i].reader, reads, &peers[i], NULL), 0);
    }
    for (int f = 0; f < FRAMES; f++) {
        weft_buf *frame = frame_of(f);
        CHECK_EQ(weft_outbox_post_all(boxes, PEERS, frame, NULL), PEERS);
        weft_buf_free(frame);
        if (f % 7 == 0) {
            weft_yield();
        }
    }
    for (int i = 0; i < PEERS; i++) {
        weft_outbox_close(&peers[i].outbox);
        weft_buf *late = weft_buf_copy("x", 1);
        CHECK_EQ(weft_outbox_post(&peers[i].outbox, late), -EPIPE);
        weft_buf_free(late);
        CHECK_EQ(weft_join(peers[i].reader, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_outbox_pending(&peers[i].outbox), 0);
        CHECK_EQ(close_peer(&peers[i]), 0);
    }
    CHECK_EQ(atomic_load(&released), FRAMES); /* freed once each, after the last receiver */
    return arg;
}

EACH_DRIVER(every_outbox_peer_gets_every_frame_without_copy)
{
    const struct weft_pool_opts one = {.workers = 1, .driver = driver};
    const struct weft_pool_opts three = {.workers = 3, .driver = driver};
    CHECK_EQ(weft_run(NULL, fans_out, NULL, &one, WEFT_FOREVER), 0);
    CHECK_EQ(weft_run(NULL, fans_out, NULL, &three, WEFT_FOREVER), 0);
}

/* --- slow receivers -------------------------------------------------------------------------- */

static void *slow_peer(void *arg)
{
    struct peer *slow = &peers[0], *quick = &peers[1];
    bool refused[2];
    int sent = 0, got = 0;
    atomic_store(&released, 0);
    open_peer(slow, &(struct weft_outbox_opts){.high_water = 5 * FRAME});
    open_peer(quick, NULL);
    CHECK_EQ(weft_spawn(&slow->writer, runs, slow, NULL), 0);
    CHECK_EQ(weft_spawn(&quick->writer, runs, quick, NULL), 0);
    weft_outbox *both[] = {&slow->outbox, &quick->outbox};
    for (;;) {
        weft_buf *frame = frame_of(1);
        size_t took = weft_outbox_post_all(both, 2, frame, refused);
        weft_buf_free(frame);
        sent++;
        unsigned char back[FRAME];
        CHECK_EQ(weft_read_full(quick->ends[1], back, sizeof back, NULL, WEFT_FOREVER), 0);
        got++;
        if (took == 1) {
            break;
        }
    }
    CHECK(refused[0] && !refused[1]);
    CHECK(weft_outbox_pending(&slow->outbox) >= 5 * FRAME);
    CHECK_EQ(got, sent);
    /* The peer disconnects: the writer gets an error, and the posted frames are released. */
    CHECK_EQ(weft_close(slow->ends[1]), 0);
    slow->ends[1] = dup(quick->ends[1]);
    weft_outbox_close(&quick->outbox);
    CHECK_EQ(close_peer(slow), -EPIPE);
    CHECK_EQ(close_peer(quick), 0);
    CHECK_EQ(atomic_load(&released), sent);
    return arg;
}

EACH_DRIVER(slow_outbox_peer_is_refused_alone)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, slow_peer, NULL, &opts, WEFT_FOREVER), 0);
}

/* --- run interrupted, and run again ----------------------------------------------------------- */

static void *ended(void *arg)
{
    struct peer *peer = &peers[0];
    static char much[400000], back[sizeof much];
    size_t have = 0;
    open_peer(peer, NULL);
    for (size_t i = 0; i < sizeof much; i++) {
        much[i] = (char)(i * 7 % 251);
    }
    CHECK_EQ(weft_outbox_post(&peer->outbox, weft_buf_copy(much, sizeof much / 2)), 0);
    CHECK_EQ(weft_outbox_post(&peer->outbox, weft_buf_copy("", 0)), 0);
    CHECK_EQ(weft_outbox_run(&peer->outbox, weft_after(1000000)), -ETIMEDOUT); /* in the middle of a
                                                                                * frame */
    CHECK_EQ(
        weft_outbox_post(&peer->outbox, weft_buf_copy(much + sizeof much / 2, sizeof much / 2)), 0);
    weft_outbox_close(&peer->outbox);
    CHECK_EQ(weft_spawn(&peer->writer, runs, peer, NULL), 0);
    ssize_t n;
    while ((n = weft_read(peer->ends[1], back + have, sizeof back - have, WEFT_FOREVER)) > 0) {
        have += (size_t)n;
    }
    CHECK_EQ(have, sizeof much);
    CHECK_EQ(memcmp(much, back, sizeof much), 0);
    CHECK_EQ(close_peer(peer), 0);
    return arg;
}

EACH_DRIVER(outbox_run_resumes_at_interrupted_byte)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, ended, NULL, &opts, WEFT_FOREVER), 0);
}

/* --- a peer that does not read ---------------------------------------------------------------- */

static void post_much(struct peer *peer)
{
    static char much[400000];
    CHECK_EQ(weft_outbox_post(&peer->outbox, weft_buf_copy(much, sizeof much)), 0);
}

static void *stalled(void *arg)
{
    struct peer *peer = &peers[0];
    open_peer(peer, &(struct weft_outbox_opts){.stall_ns = 20000000});
    post_much(peer);
    CHECK_EQ(weft_outbox_run(&peer->outbox, weft_now() + 1000000), -ETIMEDOUT); /* the deadline */
    post_much(peer);
    CHECK_EQ(weft_spawn(&peer->writer, runs, peer, NULL), 0);
    void *result;
    CHECK_EQ(weft_join(peer->writer, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ETIME);
    CHECK(weft_outbox_pending(&peer->outbox) > 0);
    weft_buf *late = weft_buf_copy("x", 1);
    CHECK_EQ(weft_outbox_post(&peer->outbox, late), -EPIPE);
    weft_buf_free(late);
    CHECK_EQ(weft_close(peer->ends[0]), 0);
    CHECK_EQ(weft_close(peer->ends[1]), 0);
    weft_outbox_deinit(&peer->outbox);
    return arg;
}

EACH_DRIVER(stalled_outbox_peer_ends_run)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, stalled, NULL, &opts, WEFT_FOREVER), 0);
}

/* Each pause is below the limit, and several of them pass before there is buffer space. One worker:
 * whatever delays it, the reader's timer fires before the writer's. */
static void *unhurried(void *arg)
{
    static char part[20000];
    struct peer *peer = &peers[0];
    ssize_t n;
    open_peer(peer, &(struct weft_outbox_opts){.stall_ns = 200000000});
    post_much(peer);
    weft_outbox_close(&peer->outbox);
    CHECK_EQ(weft_spawn(&peer->writer, runs, peer, NULL), 0);
    do {
        weft_sleep(weft_after(60000000));
        size_t have = 0;
        while (have < 2 * sizeof part &&
               (n = weft_read(peer->ends[1], part, sizeof part, WEFT_FOREVER)) > 0) {
            have += (size_t)n;
        }
    } while (n > 0);
    CHECK_EQ(close_peer(peer), 0);
    return arg;
}

EACH_DRIVER(slowly_reading_outbox_peer_is_kept)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, unhurried, NULL, &opts, WEFT_FOREVER), 0);
}
