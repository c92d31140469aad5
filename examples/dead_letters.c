/* No order is lost with its worker: a worker hangs in a call to its backend and is killed, and the
 * orders in its mailbox become dead letters, which the host hands to the standby worker. A hook
 * reports every actor that does not end normally, and log lines name the actor that writes them. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { ORDERS = 3 };

static weft_event backend = WEFT_EVENT_INIT; /* never set: the backend does not respond */
static atomic_int crashes;

/* --- the log -------------------------------------------------------------------------------- */

/* Works in code that knows nothing of actors as well. */
static void log_line(const char *text)
{
    const weft_actor *self = weft_actor_self();
    char pid[64] = "";
    if (self) {
        weft_pid_format(weft_actor_pid(self), pid, sizeof pid);
    }
    printf("[%s%s%s] %s\n", self ? weft_host_name(weft_actor_host(self)) : "main", self ? " " : "",
           pid, text);
}

static void on_end(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, int reason,
                   void *arg)
{
    char text[64];
    (void)arg;
    weft_pid_format(pid, text, sizeof text);
    if (reason) {
        printf("%s: %s %s has ended: %s\n", weft_host_name(host), kind->name, text,
               weft_strerror(reason));
        atomic_fetch_add(&crashes, 1);
    }
}

/* --- the workers ---------------------------------------------------------------------------- */

static int work(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    log_line("connecting to the backend");
    return weft_event_wait(&backend, WEFT_FOREVER); /* hangs, until it is cancelled */
}

static const struct weft_actor_kind worker_kind = {.name = "worker", .run = work};

static int stand_in(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    int sum = 0;
    (void)self;
    for (int i = 0; i < ORDERS; i++) {
        int err = weft_actor_receive_topic(&event, "order", WEFT_FOREVER);
        if (err) {
            return err;
        }
        log_line(event->buf ? (const char *)event->buf->data : "an order without text");
        sum += (int)event->tag;
    }
    *result = weft_buf_copy(&sum, sizeof sum);
    return *result ? 0 : -ENOMEM;
}

static const struct weft_actor_kind standby_kind = {.name = "standby", .run = stand_in};

/* Called on the thread that found the dead letter. */
static void redeliver(weft_host *host, const struct weft_dead_letter *letter, void *arg)
{
    const weft_pid *standby = arg;
    (void)host;
    if (!weft_pid_equal(letter->to, *standby)) {
        weft_actor_send(*standby, letter->topic, letter->tag,
                        letter->buf ? weft_buf_share(letter->buf) : NULL, WEFT_BY_POLICY);
    }
}

/* --- the shop ------------------------------------------------------------------------------- */

/* Returns the sum of the orders that were processed, or an error. */
static int sell(weft_host *host, weft_pid *standby)
{
    static const char *const orders[ORDERS] = {"one apple", "two pears", "three plums"};
    weft_pid worker;
    weft_buf *result = NULL;
    int sum = 0;
    int err =
        weft_host_add_hook(host, &(struct weft_host_hook){.name = "crashes", .on_end = on_end});
    err = err ? err : weft_host_on_dead_letter(host, redeliver, standby);
    err = err ? err : weft_actor_spawn(host, standby, &standby_kind, NULL, NULL);
    err = err ? err : weft_actor_spawn(host, &worker, &worker_kind, NULL, NULL);
    for (int i = 0; i < ORDERS && !err; i++) {
        err = weft_actor_send(worker, "order", (uint64_t)i + 1,
                              weft_buf_copy(orders[i], strlen(orders[i]) + 1), WEFT_BY_POLICY);
    }
    log_line("the worker does not respond: kill it");
    err = err ? err : weft_actor_kill(worker);
    err = err ? err : weft_actor_join(*standby, &result, WEFT_FOREVER);
    if (!err) {
        memcpy(&sum, result->data, sizeof sum);
    }
    weft_buf_free(result);
    int end = err ? 0 : weft_actor_join(worker, NULL, WEFT_FOREVER);
    return err ? err : end == -ECANCELED ? sum : -EPROTO;
}

int main(void)
{
    weft_host *host;
    weft_pid standby = {0};
    int err = weft_host_create(&host, &(struct weft_host_opts){.name = "shop", .workers = 2});
    if (err) {
        fprintf(stderr, "dead_letters: %s\n", weft_strerror(err));
        return 1;
    }
    int sum = sell(host, &standby);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    if (sum != 1 + 2 + 3 || forced || atomic_load(&crashes) != 1) {
        fprintf(stderr, "dead_letters: %s, %d crashes\n",
                sum < 0 ? weft_strerror(sum) : "orders are missing", atomic_load(&crashes));
        return 1;
    }
    return 0;
}
