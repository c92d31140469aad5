/* A feed: a publisher sends every price to all subscribers. A price that a subscriber cannot take,
 * because it reads too slowly and its budget of queued output is used up, is skipped for it; the
 * slowest subscribers are listed, and cut when they have missed too much. The other subscribers get
 * every price, and a subscriber at rest is not woken for it. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { SUBSCRIBERS = 100, PRICES = 4000, PRICE_BYTES = 4096, MISSED_MAX = 100, SLOWEST = 3 };

static weft_server *server;

static struct {
    weft_mutex lock; /* guards the rest */
    struct subscriber {
        weft_conn_id id;
        unsigned missed;
    } list[SUBSCRIBERS];
    size_t count;
} feed;

static void lock_feed(void)
{
    weft_fiber_shield_enter(); /* a stop cancels functions of connections at its deadline */
    weft_mutex_lock(&feed.lock, WEFT_FOREVER);
    weft_fiber_shield_leave();
}

/* --- the protocol ----------------------------------------------------------------------------- */

static int subscribe(weft_conn *conn, void *arg)
{
    (void)arg;
    lock_feed();
    bool admitted = feed.count < SUBSCRIBERS;
    if (admitted) {
        feed.list[feed.count++] = (struct subscriber){.id = weft_conn_get_id(conn)};
    }
    weft_mutex_unlock(&feed.lock);
    return admitted ? weft_conn_send(conn, "welcome\n", 8, WEFT_FOREVER) : -EUSERS;
}

static int ignore(weft_conn *conn, const char *line, size_t n, void *arg)
{
    (void)conn, (void)line, (void)n, (void)arg;
    return 0;
}

static void unsubscribe(weft_conn *conn, enum weft_conn_end why, void *arg)
{
    (void)why, (void)arg;
    lock_feed();
    for (size_t i = 0; i < feed.count; i++) {
        if (feed.list[i].id == weft_conn_get_id(conn)) {
            feed.list[i] = feed.list[--feed.count];
        }
    }
    weft_mutex_unlock(&feed.lock);
}

static const struct weft_protocol prices = {.name = "prices",
                                            .framing = WEFT_FRAMING_LINE,
                                            .open = subscribe,
                                            .handle = ignore,
                                            .close = unsubscribe};

/* --- the publisher ---------------------------------------------------------------------------- */

static void list_slowest(void)
{
    struct weft_conn_info slowest[SLOWEST];
    char address[WEFT_ADDR_STRLEN];
    size_t n = weft_server_slowest(server, slowest, SLOWEST);
    for (size_t i = 0; i < n; i++) {
        weft_addr_format(&slowest[i].peer, address, sizeof address);
        fprintf(stderr, "price_feed: %s has yet to read %zu bytes\n", address,
                slowest[i].output_bytes);
    }
}

/* The bytes are in memory once, for all subscribers. */
static void publish(const weft_buf *price)
{
    lock_feed();
    for (size_t i = 0; i < feed.count; i++) {
        weft_buf *view = weft_buf_share(price);
        int err = view ? weft_server_send(server, feed.list[i].id, view) : -ENOMEM;
        if (err) {
            weft_buf_free(view);
        }
        if (err == -EAGAIN && ++feed.list[i].missed == MISSED_MAX) {
            list_slowest();
            weft_server_close(server, feed.list[i].id, true);
        }
    }
    weft_mutex_unlock(&feed.lock);
}

static weft_buf *next_price(unsigned number)
{
    char text[PRICE_BYTES + 1];
    int len = snprintf(text, sizeof text, "price %u", number);
    memset(text + len, ' ', sizeof text - (size_t)len);
    text[PRICE_BYTES - 1] = '\n';
    return weft_buf_copy(text, PRICE_BYTES);
}

/* --- two subscribers: one reads, the other does not ------------------------------------------- */

static int read_price(int fd, unsigned number)
{
    char got[PRICE_BYTES];
    unsigned is;
    int err = weft_read_full(fd, got, sizeof got, NULL, weft_after(WEFT_SECONDS(60)));
    return err ? err : sscanf(got, "price %u", &is) == 1 && is == number ? 0 : -EPROTO;
}

static int connect_subscriber(const struct weft_addr *at)
{
    char welcome[8];
    int64_t deadline = weft_after(WEFT_SECONDS(10));
    int fd = weft_connect(at, deadline);
    if (fd >= 0 && weft_read_full(fd, welcome, sizeof welcome, NULL, deadline) != 0) {
        weft_close(fd);
        return -ECONNRESET;
    }
    return fd;
}

static int publish_all(int reader)
{
    struct weft_server_stats stats = {0};
    int err = 0;
    for (unsigned i = 0; !err && i < PRICES; i++) {
        weft_buf *price = next_price(i);
        if (!price) {
            return -ENOMEM;
        }
        publish(price);
        weft_buf_free(price);
        err = read_price(reader, i);
    }
    weft_server_stats(server, &stats);
    printf("%d prices read, %d refused, %d of 2 subscribers left\n", PRICES,
           (int)stats.output_refused, (int)stats.open);
    return err ? err : stats.output_refused == MISSED_MAX && stats.open == 1 ? 0 : -EPROTO;
}

static void *run(void *arg)
{
    const struct weft_server_opts opts = {.limits = {.output_bytes = 16384}};
    struct weft_addr at;
    (void)arg;
    int err = weft_server_create(&server, &opts);
    err = err ? err : weft_server_listen(server, &at, "127.0.0.1:0", &prices, NULL);
    if (err) {
        fprintf(stderr, "price_feed: %s\n", weft_strerror(err));
        exit(1);
    }
    int reader = connect_subscriber(&at), sleeper = connect_subscriber(&at);
    err = reader < 0 || sleeper < 0 ? -ECONNREFUSED : publish_all(reader);
    weft_close(reader);
    weft_close(sleeper);
    weft_server_stop(server, weft_after(WEFT_SECONDS(5)));
    weft_server_destroy(server);
    return err ? (void *)1 : NULL;
}

int main(void)
{
    void *failed = NULL;
    weft_mutex_init(&feed.lock, NULL);
    return weft_run(&failed, run, NULL, NULL, WEFT_FOREVER) || failed;
}
