/* Senders that wait for mailbox capacity of more actors than there are wait buckets: each sender is
 * admitted by its own receiver, whichever sender is before it in the bucket. */
#include <errno.h>

#include <weft/weft.h>

#include "check.h"
#include "command/waiting_fiber.h"

enum { ACTORS = 300 }; /* more than WAIT_BUCKETS in src/mailbox/admission.c */

static weft_event go[ACTORS];
static weft_pid pids[ACTORS];

static int know_index(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(int));
    return 0;
}

/* Handles nothing until told to; then the queued message, and the message that waited. */
static int receive_two(weft_actor *self, weft_buf **result)
{
    int index = *(int *)weft_actor_state(self);
    const struct weft_actor_event *event;
    (void)result;
    CHECK_EQ(weft_event_wait(&go[index], WEFT_FOREVER), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
        CHECK_EQ(event->tag, 2 * index + i);
    }
    return 0;
}

static const struct weft_actor_kind narrow = {.name = "narrow",
                                              .state_bytes = sizeof(int),
                                              .init = know_index,
                                              .run = receive_two,
                                              .mailbox = 1,
                                              .policy = WEFT_MAILBOX_WAIT};

static void *send_second(void *arg)
{
    int i = (int)(intptr_t)arg;
    CHECK_EQ(weft_actor_send(pids[i], "n", (uint64_t)(2 * i + 1), NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(waiting_sender_in_shared_bucket_is_admitted_by_its_actor)
{
    weft_fiber senders[ACTORS];
    weft_host *host;
    weft_pool *pool;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < ACTORS; i++) {
        weft_event_init(&go[i], NULL);
        weft_buf *index = weft_buf_copy(&i, sizeof i);
        CHECK_EQ(weft_actor_spawn(host, &pids[i], &narrow, NULL, index), 0);
        weft_buf_free(index);
    }
    for (int i = 0; i < ACTORS; i++) {
        CHECK_EQ(weft_actor_send(pids[i], "n", (uint64_t)(2 * i), NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pids[i], "n", 0, NULL, WEFT_BY_POLICY), -ENOBUFS);
        CHECK_EQ(weft_pool_spawn(pool, &senders[i], send_second, (void *)(intptr_t)i, NULL), 0);
        await_waiting(senders[i]);
    }
    for (int i = ACTORS - 1; i >= 0; i--) { /* within one bucket, the last one first */
        weft_event_set(&go[i]);
        CHECK_EQ(weft_join(senders[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < ACTORS; i++) { /* or the host's cancel overtakes the second message */
        weft_actor_join(pids[i], NULL, WEFT_FOREVER);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
