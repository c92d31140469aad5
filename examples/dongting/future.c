/* Dongting: group.newFuture(), await, fireComplete, fireCompleteExceptionally, cancel, convert. A
 * plain thread completes the futures; a failure is thrown in the waiting frame, whether it happened
 * before or after the wait began. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

struct reader {
    weft_frame frame;
    struct weft_wait wait;
    weft_future *future;
    int64_t deadline;
};

static enum weft_step has_value(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step start(weft_frame *f, struct weft_got got)
{
    struct reader *self = (struct reader *)f;
    (void)got;
    return weft_frame_await_future(f, &self->wait, self->future, self->deadline,
                                   WEFT_THEN(has_value));
}

static enum weft_step handle(weft_frame *f, const weft_error *error)
{
    return weft_frame_return(f, (void *)(intptr_t)weft_error_code(error));
}

static const struct weft_frame_kind reading = {.name = "read", .start = start, .handle = handle};

/* future.convert(v -> v + 1) */
static int add_one(void *arg, void *value, void **converted)
{
    (void)arg;
    *converted = (void *)((intptr_t)value + 1);
    return 0;
}

enum { VALUE, ERROR, CANCEL, NEVER, CONVERTED, READERS };

static void *decide(void *futures)
{
    weft_future **future = futures;
    weft_future_complete(future[VALUE], (void *)41); /* from any thread */
    weft_future_fail(future[ERROR], -EIO);
    weft_future_cancel(future[CANCEL]);
    return NULL;
}

int main(void)
{
    static const intptr_t expected[READERS] = {41, -EIO, -ECANCELED, -ETIMEDOUT, 42};
    weft_future *futures[READERS];
    struct reader readers[READERS];
    weft_fiber fibers[READERS];
    weft_dispatcher *dispatcher;
    weft_group *group;
    pthread_t thread;
    bool ok = true;
    for (int i = VALUE; i <= NEVER; i++) {
        if (weft_future_create(&futures[i], NULL)) {
            return 1;
        }
    }
    if (weft_future_map(futures[VALUE], &futures[CONVERTED], add_one, NULL) ||
        weft_dispatcher_create(&dispatcher, NULL) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL)) {
        return 1;
    }
    for (int i = 0; i < READERS; i++) {
        readers[i].future = futures[i];
        readers[i].deadline = i == NEVER ? weft_after(WEFT_MS(1)) : WEFT_FOREVER;
        weft_frame_init(&readers[i].frame, &reading);
        if (weft_group_spawn_frame(group, &fibers[i], &readers[i].frame, NULL)) {
            return 1;
        }
    }
    if (pthread_create(&thread, NULL, decide, futures)) {
        return 1;
    }
    for (int i = 0; i < READERS; i++) {
        void *result = NULL;
        ok &= weft_join(fibers[i], &result, WEFT_FOREVER) == 0;
        ok &= (intptr_t)result == expected[i];
        printf("reader %d: %d\n", i, (int)(intptr_t)result);
    }
    pthread_join(thread, NULL);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    for (int i = 0; i < READERS; i++) {
        weft_future_unref(futures[i]);
    }
    return ok ? 0 : 1;
}
