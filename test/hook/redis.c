/* Redis through hiredis, which uses blocking sockets. */
/* needs: hiredis */
/* not under: tsan valgrind qemu */
/* serial */
#include <hiredis/hiredis.h>

#include "hook/server.h"

enum { FIBERS = 50 };

static struct server server;
static char path[96];

static redisContext *connected(void)
{
    redisContext *c = redisConnectUnix(path);
    CHECK(c != NULL);
    return c;
}

static void start(void)
{
    int status;
    if (access("/usr/bin/redis-server", X_OK) != 0) {
        check_skip("no Redis server (Debian: redis-server)");
    }
    server_init(&server, NULL);
    snprintf(path, sizeof path, "%s/socket", server.folder);
    const char *const serve[] = {"redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                                 "--appendonly", "no",     NULL};
    server.pid = server_run(&server, serve);
    for (int tries = 0;; tries++) {
        redisContext *c = connected();
        bool up = !c->err;
        redisFree(c);
        if (up) {
            return;
        }
        if (tries > SERVER_TRIES || waitpid(server.pid, &status, WNOHANG) != 0) {
            server_fail(&server, "redis-server did not start");
        }
        usleep(50000);
    }
}

static void *talks(void *arg)
{
    int me = (int)(intptr_t)arg;
    redisContext *c = connected();
    CHECK_EQ(c->err, 0);
    for (int i = 0; i < 50; i++) {
        redisReply *reply = redisCommand(c, "INCRBY counter:%d %d", me, i);
        CHECK(reply && reply->type == REDIS_REPLY_INTEGER);
        CHECK_EQ(reply->integer, i * (i + 1) / 2);
        freeReplyObject(reply);
    }
    /* The server replies when nothing has arrived for a while: all fibers wait at the same time. */
    redisReply *reply = redisCommand(c, "BLPOP empty:%d 1", me);
    CHECK(reply && reply->type == REDIS_REPLY_NIL);
    freeReplyObject(reply);
    reply = redisCommand(c, "DEL counter:%d", me);
    CHECK(reply && reply->integer == 1);
    freeReplyObject(reply);
    redisFree(c);
    return NULL;
}

/* hiredis sets SO_RCVTIMEO, and treats EAGAIN as the timeout. */
static void *times_out(void *arg)
{
    redisContext *c = connected();
    struct timeval time = {.tv_usec = 50000};
    CHECK_EQ(redisSetTimeout(c, time), REDIS_OK);
    CHECK(redisCommand(c, "BLPOP nothing 0") == NULL);
    CHECK_EQ(c->err, REDIS_ERR_IO);
    redisFree(c);
    return arg;
}

TEST(fibers_use_hiredis_concurrently)
{
    start();
    for (int i = WEFT_DRIVER_EPOLL; i <= WEFT_DRIVER_POLL; i++) {
        if (drivers_have((enum weft_driver)i)) {
            /* Sequentially: 50 s. */
            double seconds = server_crowd_within(25, (enum weft_driver)i, FIBERS, talks);
            printf("  on %s: %d fibers, 52 commands each, one of 1 s: %.2f s\n", drivers_names[i],
                   FIBERS, seconds);
            server_crowd_on((enum weft_driver)i, 10, times_out);
        }
    }
    server_stop(&server, SIGTERM);
}
