/* Wippy: type Process interface { Init(ctx, method, input) error; Step(events, out) error; Close()
 * }. A weft_actor_kind has the same three functions. `method` chooses the entry point; a kind may
 * list its methods, and any other method is refused before init is called. Close is called exactly
 * once, however the actor ends; an init that failed leaves nothing behind, and close is not
 * called. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

struct counter {
    int step, left;
};

static atomic_int closed;

static int counter_init(weft_actor *self, const char *method, const weft_buf *input)
{
    struct counter *c = weft_actor_state(self);
    c->step = strcmp(method, "down") == 0 ? -1 : 1;
    memcpy(&c->left, input->data, sizeof c->left);
    return c->left < 0 ? -EINVAL : 0;
}

/* May be called without events: at the first step, and after weft_out_continue. */
static int counter_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    struct counter *c = weft_actor_state(self);
    (void)events, (void)n;
    if (c->left-- > 0) {
        weft_out_continue(out); /* out.Continue(): step again, after others */
    } else {
        weft_out_done(out, weft_buf_copy(&c->step, sizeof c->step)); /* out.Done(result) */
    }
    return 0;
}

static void counter_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

static const char *const methods[] = {"up", "down", NULL};
static const struct weft_actor_kind counter = {.name = "counter",
                                               .state_bytes = sizeof(struct counter),
                                               .methods = methods,
                                               .init = counter_init,
                                               .step = counter_step,
                                               .close = counter_close};

int main(void)
{
    weft_host *host;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 2})) {
        return 1;
    }
    int ten = 10, wrong = -1;
    weft_buf *input = weft_buf_copy(&ten, sizeof ten), *bad = weft_buf_copy(&wrong, sizeof wrong);
    weft_pid up, down;
    int unknown = weft_actor_spawn(host, &up, &counter, "sideways", input);
    int refused = weft_actor_spawn(host, &up, &counter, "up", bad);
    if (weft_actor_spawn(host, &up, &counter, "up", input) ||
        weft_actor_spawn(host, &down, &counter, "down", input)) {
        return 1;
    }
    weft_buf_free(input);
    weft_buf_free(bad);
    weft_host_stop(host, NULL, WEFT_FOREVER); /* both actors end by themselves */
    weft_host_destroy(host);
    printf("unknown method: %d, init refused: %d, closed: %d\n", unknown, refused,
           atomic_load(&closed));
    return unknown == -ENOENT && refused == -EINVAL && atomic_load(&closed) == 2 ? 0 : 1;
}
