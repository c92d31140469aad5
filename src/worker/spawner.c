#include "worker/spawner.h"

#include <pthread.h>

#include "base/assert.h"
#include "task/fork.h"

static _Thread_local struct weft__spawner thread_spawner __attribute__((tls_model("initial-exec")));
static _Thread_local bool thread_spawner_used __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end;
static struct weft__fork_once thread_end_once;

static void thread_ended(void *spawner)
{
    weft__spawner_flush(spawner);
    thread_spawner_used = false;
}

static void thread_end_create(void)
{
    int err = pthread_key_create(&thread_end, thread_ended);
    WEFT__REQUIRE(!err, "pthread_key_create failed: no thread key is left for Weft");
}

struct weft__spawner *weft__spawner_of_thread(void)
{
    if (!thread_spawner_used) {
        weft__fork_once(&thread_end_once, thread_end_create);
        if (pthread_setspecific(thread_end, &thread_spawner) != 0) {
            return NULL;
        }
        thread_spawner_used = true;
        thread_spawner.blocks.waits_for_recycled = true;
    }
    return &thread_spawner;
}

/* Its control blocks belonged to the parent. */
void weft__spawner_fork_child(void)
{
    thread_spawner.blocks = (struct weft__slab_cache){0};
}

void weft__spawner_flush(struct weft__spawner *spawner)
{
    weft__slab_cache_flush(&spawner->blocks);
    weft__spawner_give_credits(spawner);
}

void weft__spawner_give_credits(struct weft__spawner *spawner)
{
    for (unsigned class = 0; class < WEFT__STACK_CLASSES; class ++) {
        if (spawner->credits[class]) {
            weft__stack_credit_give(class, spawner->credits[class]);
            spawner->credits[class] = 0;
        }
    }
}
