/* Interrupts sent = -EINTR results. Two fibers wait on one direction of a descriptor; a plain
 * thread interrupts the second, again as soon as the last interrupt was delivered; bytes and
 * connections arrive meanwhile. A lost interrupt leaves the fiber waiting for ever. */
/* not under: qemu */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/cpu.h"
#include "base/rand.h"
#include "io/drivers.h"

enum { WAITERS = 2 };

#define LOST_NS INT64_C(60000000000) /* without an interrupt: a long time, also on a busy machine */

static atomic_ulong delivered; /* to the second */
static atomic_long taken;      /* bytes or connections, by both fibers */
static weft_event over;
static int fd, peer = -1;
static weft_fiber fibers[WAITERS];
static ssize_t (*wait_once)(void);

static void *waits(void *arg)
{
    bool second = arg != NULL;
    for (;;) {
        ssize_t got = wait_once();
        if (got == -ECANCELED) {
            return NULL;
        }
        if (got == -EINTR) {
            CHECK(second);
            atomic_fetch_add(&delivered, 1);
        } else {
            CHECK_EQ(got, 1);
            atomic_fetch_add(&taken, 1);
        }
    }
}

/* --- the plain thread ------------------------------------------------------------------------- */

static long rounds;
static bool (*disturb)(void);
static long disturbances;

static void await_delivery(unsigned long count)
{
    int64_t began = weft_now();
    while (atomic_load(&delivered) < count) {
        sched_yield();
        if (weft_now() - began > LOST_NS) {
            fprintf(stderr, "interrupt %lu was not delivered\n", count);
            CHECK(!"an interrupt was lost");
        }
    }
}

static void *interrupts(void *arg)
{
    struct weft__rand rand;
    (void)arg;
    weft__rand_seed(&rand, check_seed());
    for (long i = 1; i <= rounds; i++) {
        uint32_t dice = weft__rand_next(&rand);
        for (uint32_t n = dice % 512; n > 0; n--) {
            weft__cpu_pause();
        }
        disturbances += dice % 8 == 0 && disturb();
        CHECK_EQ(weft_fiber_interrupt(fibers[1]), 0);
        disturbances += dice % 8 == 1 && disturb();
        await_delivery((unsigned long)i);
        CHECK_EQ(atomic_load(&delivered), i);
    }
    while (atomic_load(&taken) < disturbances) {
        sched_yield(); /* the last interrupt is still on its way */
    }
    weft_event_set(&over);
    return NULL;
}

static void *run_both(void *arg)
{
    pthread_t thread;
    (void)arg;
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], waits, i ? &fd : NULL, NULL), 0);
    }
    CHECK_EQ(pthread_create(&thread, NULL, interrupts, NULL), 0);
    CHECK_EQ(weft_event_wait(&over, WEFT_FOREVER), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(weft_cancel(fibers[i]), 0);
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(atomic_load(&taken), disturbances);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void run(enum weft_driver driver, long n)
{
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    atomic_store(&delivered, 0);
    atomic_store(&taken, 0);
    weft_event_init(&over, NULL);
    disturbances = 0;
    rounds = check_scale(n);
    CHECK_EQ(weft_run(NULL, run_both, NULL, &opts, WEFT_FOREVER), 0);
    weft_event_deinit(&over);
}

/* --- tests ------------------------------------------------------------------------------------ */

static ssize_t receives(void)
{
    char byte;
    return weft_recv(fd, &byte, 1, 0, WEFT_FOREVER);
}

static bool sends(void)
{
    CHECK_EQ(send(peer, "x", 1, 0), 1);
    return true;
}

EACH_DRIVER(concurrent_receivers_lose_no_interrupt)
{
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fd = ends[0];
    peer = ends[1];
    wait_once = receives;
    disturb = sends;
    run(driver, 40000);
    close(peer);
}

static struct weft_addr at;

static ssize_t accepts(void)
{
    int got = weft_accept(fd, NULL, WEFT_FOREVER);
    if (got >= 0) {
        CHECK_EQ(weft_close(got), 0);
        return 1;
    }
    return got;
}

/* Less often: the number of ports is limited. */
static bool connects(void)
{
    if (disturbances >= 2000) {
        return false;
    }
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(client >= 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&at.storage, at.len), 0);
    close(client);
    return true;
}

EACH_DRIVER(concurrent_acceptors_lose_no_interrupt)
{
    fd = weft_listen("127.0.0.1:0", NULL);
    CHECK(fd >= 0);
    at.len = sizeof at.storage;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&at.storage, &at.len), 0);
    wait_once = accepts;
    disturb = connects;
    run(driver, 40000);
}
