/* A fiber that owns some state, here the stock of a shop, and serves it to all others: no lock is
 * needed. Its loop selects among requests, deliveries, the time of the next report and a stop. A
 * request carries a oneshot on the client's stack, through which the reply comes back. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CLIENTS = 10, ORDERS = 20, DELIVERIES = 40, BOXES = 5 };

struct order {
    int boxes;
    weft_oneshot *reply; /* gets the number of boxes granted */
};

struct shop {
    weft_chan *orders, *deliveries;
    weft_event closing;
    int stock, sold, reports; /* only the shop's fiber uses these */
};

static void *keep_shop(void *arg)
{
    struct shop *shop = arg;
    int64_t next_report = weft_after(WEFT_MS(1));
    while (!weft_event_is_set(&shop->closing)) {
        struct order order;
        int boxes;
        struct weft_case cases[] = {
            weft_case_recv(shop->orders, &order),
            weft_case_recv(shop->deliveries, &boxes),
            weft_case_at(next_report),
            weft_case_event(&shop->closing),
        };
        switch (weft_select(cases, 4, WEFT_FOREVER)) {
        case 0:
            boxes = order.boxes <= shop->stock ? order.boxes : 0;
            shop->stock -= boxes;
            shop->sold += boxes;
            weft_oneshot_notify(order.reply, (void *)(intptr_t)boxes);
            break;
        case 1:
            shop->stock += boxes;
            break;
        case 2:
            shop->reports++;
            next_report = weft_after(WEFT_MS(1));
            break;
        default: /* closing; or an error: cancelled */
            return NULL;
        }
    }
    return NULL;
}

/* Returns the number of boxes granted, or a negative errno. */
static int order_boxes(struct shop *shop, int boxes)
{
    weft_oneshot reply;
    void *granted = NULL;
    weft_oneshot_init(&reply, &(struct weft_sync_opts){.name = "order"});
    const struct order order = {boxes, &reply};
    int err = weft_chan_send(shop->orders, &order, WEFT_FOREVER);
    if (!err) {
        err = weft_oneshot_wait(&reply, &granted, WEFT_FOREVER);
    }
    weft_oneshot_deinit(&reply);
    return err ? err : (int)(intptr_t)granted;
}

static atomic_int bought;
static struct shop shop;

static int buy(void *arg)
{
    (void)arg;
    for (int i = 0; i < ORDERS; i++) {
        int boxes = order_boxes(&shop, 1 + i % 3);
        if (boxes < 0) {
            return boxes;
        }
        atomic_fetch_add(&bought, boxes);
    }
    return 0;
}

static int deliver(void *arg)
{
    const int boxes = BOXES;
    int err = 0;
    (void)arg;
    for (int i = 0; i < DELIVERIES && !err; i++) {
        err = weft_chan_send(shop.deliveries, &boxes, WEFT_FOREVER);
    }
    return err;
}

static void *run(void *arg)
{
    weft_fiber keeper;
    weft_scope others;
    (void)arg;
    int err = weft_spawn(&keeper, keep_shop, &shop, NULL);
    if (err) {
        return (void *)(intptr_t)err;
    }
    weft_scope_open(&others, NULL);
    err = weft_scope_spawn(&others, NULL, deliver, NULL, NULL);
    for (int i = 0; i < CLIENTS && !err; i++) {
        err = weft_scope_spawn(&others, NULL, buy, NULL, NULL);
    }
    int failure = weft_scope_close(&others, WEFT_FOREVER);
    weft_event_set(&shop.closing);
    weft_join(keeper, NULL, WEFT_FOREVER);
    return (void *)(intptr_t)(err ? err : failure);
}

int main(void)
{
    void *failure = NULL;
    int err = weft_chan_create(&shop.orders, sizeof(struct order), NULL);
    if (!err) {
        err = weft_chan_create(&shop.deliveries, sizeof(int), NULL);
    }
    if (!err) {
        err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    }
    weft_chan_destroy(shop.orders);
    weft_chan_destroy(shop.deliveries);
    printf("%d boxes delivered, %d sold, %d left\n", DELIVERIES * BOXES, shop.sold, shop.stock);
    if (err || failure || shop.sold != atomic_load(&bought) ||
        shop.sold + shop.stock != DELIVERIES * BOXES) {
        fprintf(stderr, "select_loop: %s, or boxes were lost: %d bought\n",
                weft_strerror(err ? err : (int)(intptr_t)failure), atomic_load(&bought));
        return 1;
    }
    return 0;
}
