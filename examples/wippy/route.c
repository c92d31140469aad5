/* Wippy: the scheduler implements relay.Receiver; Send finds the target in the byPID map, pushes an
 * event and wakes the process. In Weft a PID leads to its actor without a map, on any host, and
 * never to a later actor; a weft_receiver stands for a target outside this program's actors:
 * another node, a router, a test double. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

static atomic_int received, passed_on;

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            printf("%s: %.*s\n", events[i].topic, (int)events[i].buf->len,
                   (char *)events[i].buf->data);
            atomic_fetch_add(&received, 1);
        }
        weft_out_done(out, NULL);
    }
    return 0;
}

/* relay.Receiver for node 5 */
static int deliver(struct weft_receiver *self, const struct weft_remote_message *message)
{
    (void)self;
    char to[64];
    weft_pid_format(message->to, to, sizeof to);
    printf("to %s: %s\n", to, message->topic);
    weft_buf_free(message->buf);
    atomic_fetch_add(&passed_on, 1);
    return 0;
}

int main(void)
{
    static const struct weft_actor_kind kind = {.name = "target", .step = step};
    struct weft_receiver far = {.deliver = deliver};
    weft_host *a, *b;
    weft_pid pid, remote = {.node = 5, .host = 1, .id = 17};
    if (weft_host_create(&a, &(struct weft_host_opts){.name = "a", .workers = 1}) ||
        weft_host_create(&b, &(struct weft_host_opts){.name = "b", .workers = 1}) ||
        weft_actor_spawn(b, &pid, &kind, NULL, NULL) || weft_route_add(5, &far)) {
        return 1;
    }
    int sent =
        weft_actor_send(pid, "hello", 0, weft_buf_copy("moved, not copied", 17), WEFT_BY_POLICY);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    int gone = weft_actor_send(pid, "hello", 0, NULL, WEFT_BY_POLICY);
    int there = weft_actor_send(remote, "hello", 0, NULL, WEFT_BY_POLICY);
    weft_route_remove(5);
    int nowhere = weft_actor_send(remote, "hello", 0, NULL, WEFT_BY_POLICY);
    printf("sent: %d, gone: %d, another node: %d, no way there: %d\n", sent, gone, there, nowhere);
    weft_host_stop(a, NULL, WEFT_FOREVER);
    weft_host_stop(b, NULL, WEFT_FOREVER);
    weft_host_destroy(a);
    weft_host_destroy(b);
    bool good = sent == 0 && gone == -ESRCH && there == 0 && nowhere == -EHOSTUNREACH;
    return good && atomic_load(&received) == 1 && atomic_load(&passed_on) == 1 ? 0 : 1;
}
