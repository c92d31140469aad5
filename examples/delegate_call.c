/* A desk that answers calls without doing the work: for each call it spawns a clerk, makes the
 * clerk responsible for the reply, and is free for the next call. The clerk calls a third actor,
 * replies to the original caller and ends. If a clerk fails, its caller gets an error at once
 * instead of waiting for its deadline. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static bool is(const weft_buf *buf, const char *text)
{
    return buf && buf->len == strlen(text) && memcmp(buf->data, text, buf->len) == 0;
}

/* --- the price list ------------------------------------------------------------------------- */

static int find_price(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    static const int price = 42;
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CALL && is(events[i].buf, "lamp")) {
            weft_actor_reply(events[i].tag, 0, weft_buf_copy(&price, sizeof price));
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            weft_actor_reply(events[i].tag, -ENOENT, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind prices_kind = {.name = "prices", .step = find_price};

static weft_pid prices;

/* --- a clerk: one call ---------------------------------------------------------------------- */

static int handle_call(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    uint64_t *call = weft_actor_state(self);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_COMPLETE) { /* the price, or an error */
            weft_actor_reply(*call, events[i].error, weft_actor_take_buf(&events[i]));
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (is(events[i].buf, "vase")) {
            return -EIO; /* the clerk fails */
        } else {
            *call = events[i].tag;
            return weft_out_call(out, 0, prices, "price", weft_actor_take_buf(&events[i]),
                                 weft_after(WEFT_MINUTES(1)));
        }
    }
    return 0;
}

static const struct weft_actor_kind clerk_kind = {
    .name = "clerk", .state_bytes = sizeof(uint64_t), .step = handle_call};

/* --- the desk ------------------------------------------------------------------------------- */

/* Hands a call over: first the responsibility, then the request. */
static int hand_over(weft_actor *self, const struct weft_actor_event *event)
{
    weft_pid clerk;
    int err = weft_actor_spawn(weft_actor_host(self), &clerk, &clerk_kind, NULL, NULL);
    if (err) {
        return err;
    }
    err = weft_actor_call_transfer(event->tag, clerk);
    if (err) { /* the caller has given up */
        weft_actor_cancel(clerk, NULL);
        return err;
    }
    return weft_actor_send(clerk, "quote", event->tag, weft_actor_take_buf(event), WEFT_BY_POLICY);
}

static int run_desk(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            int err = hand_over(self, &events[i]);
            if (err) {
                weft_actor_reply(events[i].tag, err, NULL);
            }
        }
    }
    return 0;
}

static const struct weft_actor_kind desk_kind = {.name = "desk", .step = run_desk};

/* --- a caller ------------------------------------------------------------------------------- */

/* Returns the price, or an error. */
static int ask(weft_pid desk, const char *item)
{
    weft_buf *reply = NULL;
    int price = weft_actor_call(desk, &reply, "quote", weft_buf_copy(item, strlen(item)),
                                weft_after(WEFT_MINUTES(5)));
    if (price == 0 && reply) {
        memcpy(&price, reply->data, sizeof price);
    }
    weft_buf_free(reply);
    if (price < 0) {
        printf("%s: %s\n", item, weft_strerror(price));
    } else {
        printf("%s: %d\n", item, price);
    }
    return price;
}

int main(void)
{
    weft_host *host;
    weft_pid desk;
    struct weft_actor_call_stats stats;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 2}) ||
        weft_actor_spawn(host, &prices, &prices_kind, NULL, NULL) ||
        weft_actor_spawn(host, &desk, &desk_kind, NULL, NULL)) {
        fprintf(stderr, "delegate_call: cannot start\n");
        return 1;
    }
    bool ok = ask(desk, "lamp") == 42;
    ok &= ask(desk, "dragon") == -ENOENT;   /* the reply is an error */
    ok &= ask(desk, "vase") == -EOWNERDEAD; /* there is no reply */
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    weft_actor_call_stats(&stats);
    printf("%d calls, %d late replies\n", (int)stats.calls, (int)stats.late);
    if (!ok || forced || stats.calls != 3 + 2 || stats.late != 0) { /* the clerks called twice */
        fprintf(stderr, "delegate_call: unexpected result\n");
        return 1;
    }
    return 0;
}
