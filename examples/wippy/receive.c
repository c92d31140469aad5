/* Wippy's Lua processes: process.listen(topic) returns a channel, messages of other topics go to
 * the inbox, and code looks blocking. A fiber actor does the same: weft_actor_receive_topic for one
 * topic, weft_actor_receive for the next message of any topic. Messages that do not match stay
 * queued in order. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int shop(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    char seen[16] = "";
    (void)self;
    if (weft_actor_receive_topic(&event, "open", WEFT_FOREVER)) { /* serves only then */
        return -1;
    }
    while (weft_actor_receive_topic(&event, "urgent", 0) == 0) { /* urgent messages first */
        strcat(seen, (char *)event->buf->data);
    }
    while (weft_actor_receive(&event, 0) == 0 &&
           event->kind == WEFT_EVENT_MESSAGE) { /* then the others */
        strcat(seen, (char *)event->buf->data);
    }
    *result = weft_buf_copy(seen, strlen(seen) + 1);
    return 0;
}

int main(void)
{
    static const struct weft_actor_kind kind = {.name = "shop", .run = shop};
    static const char *const customers[] = {"a", "B", "c", "D"};
    weft_host *host;
    weft_pid pid;
    weft_buf *result = NULL;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 1}) ||
        weft_actor_spawn(host, &pid, &kind, NULL, NULL)) {
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        weft_actor_send(pid, i % 2 ? "urgent" : "ordinary", 0, weft_buf_copy(customers[i], 2),
                        WEFT_BY_POLICY);
    }
    weft_actor_send(pid, "open", 0, NULL, WEFT_BY_POLICY);
    int err = weft_actor_join(pid, &result, WEFT_FOREVER);
    bool good = err || strcmp((char *)result->data, "BDac") == 0;
    printf("%s\n", err ? "it was faster" : (char *)result->data);
    weft_buf_free(result);
    weft_host_stop(host, NULL, WEFT_FOREVER);
    weft_host_destroy(host);
    return good ? 0 : 1;
}
