/* A crawler of frame fibers: one fiber per page, each without a stack. At most FETCHES pages are
 * fetched at a time (a semaphore), one per host (a mutex that is held across a wait), and the index
 * of known pages is under an rwlock. All pages are children of one scope, which ends when the last
 * page has been visited. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { PAGES = 60, LINKS = 3, HOSTS = 4, FETCHES = 8 };

static weft_sem fetches;
static weft_mutex hosts[HOSTS];
static weft_rwlock index_lock;
static bool known[PAGES]; /* under index_lock */
static weft_chan *visited;
static weft_event all_visited;
static weft_scope pages; /* opened and closed by the crawl frame */

static unsigned link_of(unsigned page, unsigned i)
{
    return (page * LINKS + i + 1) % PAGES;
}

/* --- a page --------------------------------------------------------------------------------- */

struct page {
    weft_frame frame; /* first */
    struct weft_wait wait;
    unsigned number;
    bool has_permit, has_host;
};

static enum weft_step page_add_links(weft_frame *f, struct weft_got got);
static int page_start(unsigned number);

static void page_release(struct page *self)
{
    if (self->has_host) {
        weft_mutex_unlock(&hosts[self->number % HOSTS]);
    }
    if (self->has_permit) {
        weft_sem_release(&fetches, 1);
    }
    self->has_host = self->has_permit = false;
}

static enum weft_step page_done(weft_frame *f, struct weft_got got)
{
    return got.status ? weft_frame_throw(f, got.status, "nobody counts the pages")
                      : weft_frame_return(f, NULL);
}

static enum weft_step page_report(weft_frame *f)
{
    struct page *self = (struct page *)f;
    return weft_frame_await_send(f, &self->wait, visited, &self->number, WEFT_FOREVER,
                                 WEFT_THEN(page_done));
}

/* Most pages have no new links: look first with the cheap lock. */
static enum weft_step page_indexed(weft_frame *f, struct weft_got got)
{
    struct page *self = (struct page *)f;
    bool is_new = false;
    (void)got;
    for (unsigned i = 0; i < LINKS; i++) {
        is_new = is_new || !known[link_of(self->number, i)];
    }
    weft_rwlock_read_unlock(&index_lock);
    return is_new ? weft_frame_await_rwlock_write(f, &self->wait, &index_lock, WEFT_FOREVER,
                                                  WEFT_THEN(page_add_links))
                  : page_report(f);
}

static enum weft_step page_add_links(weft_frame *f, struct weft_got got)
{
    int err = 0;
    (void)got;
    for (unsigned i = 0; i < LINKS && !err; i++) {
        unsigned page = link_of(((struct page *)f)->number, i);
        if (!known[page]) { /* another page may have added it meanwhile */
            known[page] = true;
            err = page_start(page);
        }
    }
    weft_rwlock_write_unlock(&index_lock);
    return err ? weft_frame_throw(f, err, "no fiber for a page") : page_report(f);
}

static enum weft_step page_fetched(weft_frame *f, struct weft_got got)
{
    struct page *self = (struct page *)f;
    (void)got;
    page_release(self);
    return weft_frame_await_rwlock_read(f, &self->wait, &index_lock, WEFT_FOREVER,
                                        WEFT_THEN(page_indexed));
}

static enum weft_step page_fetch(weft_frame *f, struct weft_got got)
{
    (void)got;
    ((struct page *)f)->has_host = true;
    return weft_frame_sleep(f, weft_after(WEFT_US(100)), WEFT_THEN(page_fetched));
}

static enum weft_step page_admitted(weft_frame *f, struct weft_got got)
{
    struct page *self = (struct page *)f;
    (void)got;
    self->has_permit = true;
    return weft_frame_await_mutex(f, &self->wait, &hosts[self->number % HOSTS], WEFT_FOREVER,
                                  WEFT_THEN(page_fetch));
}

static enum weft_step page_begin(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_await_sem(f, &((struct page *)f)->wait, &fetches, 1, WEFT_FOREVER,
                                WEFT_THEN(page_admitted));
}

/* Releases what the page holds, also after a cancel. */
static enum weft_step page_finally(weft_frame *f)
{
    page_release((struct page *)f);
    return weft_frame_done(f);
}

static const struct weft_frame_kind page_kind = {
    .name = "page", .start = page_begin, .finally = page_finally};

static int page_start(unsigned number)
{
    struct page *page = (struct page *)weft_frame_create(&page_kind, sizeof *page);
    if (!page) {
        return -ENOMEM;
    }
    page->number = number;
    int err = weft_scope_spawn_frame(&pages, NULL, &page->frame, NULL);
    if (err) {
        weft_frame_destroy(&page->frame);
    }
    return err;
}

/* --- the counter, and the crawl ------------------------------------------------------------- */

struct counter {
    weft_frame frame;
    struct weft_wait waits[2];
    struct weft_case cases[2];
    unsigned page;
    long count;
};

static enum weft_step count_next(weft_frame *f, struct weft_got got);

static enum weft_step count_got(weft_frame *f, struct weft_got got)
{
    struct counter *self = (struct counter *)f;
    if (got.status == 1) { /* the event */
        return weft_frame_return(f, (void *)self->count);
    }
    self->count++;
    return weft_frame_continue(f, NULL, WEFT_THEN(count_next));
}

static enum weft_step count_next(weft_frame *f, struct weft_got got)
{
    struct counter *self = (struct counter *)f;
    (void)got;
    self->cases[0] = weft_case_recv(visited, &self->page);
    self->cases[1] = weft_case_event(&all_visited);
    return weft_frame_select(f, self->waits, self->cases, 2, WEFT_FOREVER, WEFT_THEN(count_got));
}

static const struct weft_frame_kind counter_kind = {.name = "counter", .start = count_next};

struct crawl {
    weft_frame frame;
    struct weft_wait wait;
    struct counter counter;
    weft_fiber counting;
};

static enum weft_step crawl_counted(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step crawl_over(weft_frame *f, struct weft_got got)
{
    struct crawl *self = (struct crawl *)f;
    weft_event_set(&all_visited); /* each page was received: the channel has no buffer */
    if (got.status) {
        printf("crawl: %s\n", weft_strerror(got.status));
    }
    return weft_frame_await_join(f, &self->wait, self->counting, WEFT_FOREVER,
                                 WEFT_THEN(crawl_counted));
}

static enum weft_step crawl_begin(weft_frame *f, struct weft_got got)
{
    struct crawl *self = (struct crawl *)f;
    (void)got;
    weft_frame_init(&self->counter.frame, &counter_kind);
    int err = weft_spawn_frame(&self->counting, &self->counter.frame, NULL);
    if (err) {
        return weft_frame_throw(f, err, "no fiber for the counter");
    }
    weft_scope_open(&pages, &(struct weft_scope_opts){.fail_fast = true});
    known[0] = true; /* before the first page runs */
    if (page_start(0) != 0) {
        weft_scope_cancel(&pages); /* it must be closed nevertheless */
    }
    return weft_frame_await_scope(f, &self->wait, &pages, WEFT_FOREVER, WEFT_THEN(crawl_over));
}

static const struct weft_frame_kind crawl_kind = {.name = "crawl", .start = crawl_begin};

int main(void)
{
    static struct crawl crawl;
    weft_pool *pool;
    weft_fiber fiber;
    void *count = NULL;
    weft_sem_init(&fetches, FETCHES, NULL);
    if (weft_chan_create(&visited, sizeof(unsigned), NULL) ||
        weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}) || weft_pool_start(pool)) {
        return 1;
    }
    weft_frame_init(&crawl.frame, &crawl_kind);
    int err = weft_pool_spawn_frame(pool, &fiber, &crawl.frame, NULL);
    err = err ? err : weft_join(fiber, &count, WEFT_FOREVER);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    weft_chan_destroy(visited);
    printf("%ld of %d pages visited\n", (long)count, PAGES);
    if (err || (long)count != PAGES) {
        fprintf(stderr, "frame_crawler: %s\n", err ? weft_strerror(err) : "pages are missing");
        return 1;
    }
    return 0;
}
