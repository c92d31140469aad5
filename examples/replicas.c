/* A page built from futures. The text comes from the first of three replicas that has it
 * (weft_future_any); the page is complete when both the user's name and the text have arrived
 * (weft_future_all). No fiber waits for the single parts. A callback counts the page as soon as it
 * is decided (weft_future_then). */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { BROKEN, FAST, SLOW, REPLICAS };

struct query {
    weft_future *answer; /* the query's own reference */
    const char *value;   /* NULL: fails */
    int64_t takes_ns;
};

static void *answer(void *arg)
{
    struct query *query = arg;
    int err = weft_sleep(weft_after(query->takes_ns));
    if (!err && !query->value) {
        err = -ECONNREFUSED;
    }
    if (err) {
        weft_future_fail(query->answer, err);
    } else {
        weft_future_complete(query->answer, (void *)(uintptr_t)query->value);
    }
    weft_future_unref(query->answer);
    return NULL;
}

/* Starts a query in a fiber of its own. The caller and the fiber hold a reference each. */
static int ask(struct query *query, weft_future **out, weft_fiber *fiber)
{
    weft_future *future;
    int err = weft_future_create(&future, NULL);
    if (err) {
        return err;
    }
    query->answer = weft_future_ref(future);
    err = weft_spawn(fiber, answer, query, NULL);
    if (err) {
        weft_future_unref(query->answer);
        weft_future_unref(future);
        return err;
    }
    *out = future;
    return 0;
}

static atomic_int pages_done, pages_failed;

static void count_page(void *arg, int err, void *value)
{
    (void)arg, (void)value;
    atomic_fetch_add(err ? &pages_failed : &pages_done, 1);
}

static bool print_page(weft_future *page, weft_future *text)
{
    void *value;
    int err = weft_future_get(page, &value, WEFT_FOREVER);
    if (err) {
        fprintf(stderr, "replicas: %s\n", weft_strerror(err));
        return false;
    }
    void **parts = value; /* in the order of the inputs; valid as long as the future */
    const char *name = parts[0], *body = parts[1];
    printf("dear %s: %s (from replica %d)\n", name, body, weft_future_which(text));
    return !strcmp(name, "reader") && !strcmp(body, "all is well") &&
           weft_future_which(text) == FAST && weft_future_which(page) == -1;
}

static void *run(void *arg)
{
    struct query queries[REPLICAS + 1] = {
        [BROKEN] = {.value = NULL},
        [FAST] = {.value = "all is well", .takes_ns = WEFT_MS(1)},
        [SLOW] = {.value = "all is old", .takes_ns = WEFT_MINUTES(10)},
        [REPLICAS] = {.value = "reader"}, /* the service for names */
    };
    weft_future *answers[REPLICAS + 1], *text, *page;
    weft_fiber fibers[REPLICAS + 1];
    for (int i = 0; i <= REPLICAS; i++) {
        if (ask(&queries[i], &answers[i], &fibers[i])) {
            return NULL;
        }
    }
    if (weft_future_any(&text, answers, REPLICAS) ||
        weft_future_all(&page, (weft_future *const[]){answers[REPLICAS], text}, 2) ||
        weft_future_then(page, count_page, NULL)) {
        return NULL;
    }
    *(bool *)arg = print_page(page, text);
    weft_future_unref(page);
    weft_future_unref(text);
    weft_cancel(fibers[SLOW]); /* its answer is not needed any more */
    for (int i = 0; i <= REPLICAS; i++) {
        weft_join(fibers[i], NULL, WEFT_FOREVER);
        weft_future_unref(answers[i]);
    }
    return NULL;
}

int main(void)
{
    bool well = false;
    int err = weft_run(NULL, run, &well, NULL, WEFT_FOREVER);
    printf("%d page done, %d failed\n", atomic_load(&pages_done), atomic_load(&pages_failed));
    if (err || !well || atomic_load(&pages_done) != 1) {
        fprintf(stderr, "replicas: %s, or a wrong page\n", weft_strerror(err));
        return 1;
    }
    return 0;
}
