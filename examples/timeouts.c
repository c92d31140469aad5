/* A client's timers: a timeout for each request in flight, a heartbeat, and an idle timeout for the
 * connection. A timer needs no fiber: its callback runs on a worker, does something short, and
 * wakes a fiber if there is more to do. A reply and a timeout may come at the same moment; the
 * result of the cancel decides which of them counts. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { REQUESTS = 8, LOST = 3, BEATS = 5 }; /* the server loses the first three requests */

struct request {
    weft_timer timeout;
    bool failed; /* read after the callback has returned */
};

struct client {
    struct request requests[REQUESTS];
    weft_timer heartbeat, idle;
    weft_waitgroup unanswered;
    weft_event enough_beats;
    atomic_int beats, replies;
    atomic_bool lost_connection;
};

static void on_timeout(weft_timer *timer, void *arg, uint64_t times)
{
    struct client *client = arg;
    struct request *request = (struct request *)(void *)timer; /* the first member */
    (void)times;
    request->failed = true;
    weft_waitgroup_done(&client->unanswered);
}

static void on_heartbeat(weft_timer *timer, void *arg, uint64_t times)
{
    struct client *client = arg;
    (void)timer;
    if (atomic_fetch_add(&client->beats, (int)times) + (int)times >= BEATS) {
        weft_event_set(&client->enough_beats);
    }
}

static void on_idle(weft_timer *timer, void *arg, uint64_t times)
{
    struct client *client = arg;
    (void)timer, (void)times;
    atomic_store(&client->lost_connection, true);
}

static void send_all(struct client *client)
{
    weft_timer *timers[REQUESTS];
    int64_t deadlines[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        weft_timer_init(&client->requests[i].timeout, on_timeout, client, NULL);
        timers[i] = &client->requests[i].timeout;
        deadlines[i] = weft_after(i < LOST ? WEFT_MS(1) : WEFT_MINUTES(10));
    }
    weft_waitgroup_add(&client->unanswered, REQUESTS);
    weft_timer_set_batch(timers, deadlines, REQUESTS); /* cheaper than one call for each */
}

static void on_reply(struct client *client, struct request *request)
{
    weft_timer_refresh(&client->idle); /* starts its ten minutes again */
    if (weft_timer_cancel(&request->timeout) == WEFT_TIMER_CANCELLED) {
        atomic_fetch_add(&client->replies, 1);
        weft_waitgroup_done(&client->unanswered);
    } /* else the timeout was first, and the reply is dropped */
}

static void *serve(void *arg)
{
    struct client *client = arg;
    for (int i = LOST; i < REQUESTS; i++) {
        on_reply(client, &client->requests[i]);
    }
    return NULL;
}

static void *run(void *arg)
{
    struct client *client = arg;
    weft_fiber server;
    weft_timer_init(&client->heartbeat, on_heartbeat, client, NULL);
    weft_timer_init(&client->idle, on_idle, client, NULL);
    weft_timer_set_every(&client->heartbeat, weft_after(WEFT_MS(1)), WEFT_MS(1), WEFT_TIMER_RATE);
    weft_timer_set_every(&client->idle, weft_after(WEFT_MINUTES(10)), WEFT_MINUTES(10),
                         WEFT_TIMER_ONCE);
    send_all(client);

    /* The last request gets more time: a timer that is set again is moved. */
    bool moved =
        weft_timer_set(&client->requests[REQUESTS - 1].timeout, weft_after(WEFT_MINUTES(20)));
    int err = weft_spawn(&server, serve, client, NULL);
    if (!err) {
        weft_join(server, NULL, WEFT_FOREVER);
        weft_waitgroup_wait(&client->unanswered, WEFT_FOREVER);
        weft_event_wait(&client->enough_beats, WEFT_FOREVER);
    }
    bool alive = weft_timer_is_pending(&client->idle);

    /* A timer may be freed only when its callback has returned. */
    int failed = 0;
    for (int i = 0; i < REQUESTS; i++) {
        weft_timer_cancel_wait(&client->requests[i].timeout, WEFT_FOREVER);
        weft_timer_deinit(&client->requests[i].timeout);
        failed += client->requests[i].failed;
    }
    weft_timer_cancel_wait(&client->heartbeat, WEFT_FOREVER);
    weft_timer_deinit(&client->heartbeat);
    weft_timer_cancel_wait(&client->idle, WEFT_FOREVER);
    weft_timer_deinit(&client->idle);
    printf("%d replies, %d timeouts, %s heartbeats, connection %s\n", atomic_load(&client->replies),
           failed, weft_event_is_set(&client->enough_beats) ? "enough" : "too few",
           alive ? "alive" : "lost");
    bool well = !err && moved && alive && failed == LOST;
    return (void *)(intptr_t)(well && !atomic_load(&client->lost_connection));
}

int main(void)
{
    static struct client client;
    void *well = NULL;
    int err = weft_run(&well, run, &client, NULL, WEFT_FOREVER);
    if (err || !well || atomic_load(&client.replies) != REQUESTS - LOST) {
        fprintf(stderr, "timeouts: expected %d replies and %d timeouts\n", REQUESTS - LOST, LOST);
        return 1;
    }
    return 0;
}
