/* Output to connections by id, under everything that can happen to a connection: clients that send
 * requests, read slowly, pause their connection, hang up and connect again; threads and a fiber that
 * send to them by id, also by old ids, and close them; a stop.
 *
 * Each connection has a record, which outlives it. A line that is sent by id names the id, the
 * sender, and its number among those that the server has accepted from this sender for this
 * connection. So a client can compose the next line of each sender itself, and compares:
 *
 *   - Every line arrives whole, in order for each sender, without gaps, and at its own connection
 *     only. Responses of the handler arrive whole and in order.
 *   - While nothing else happens to a connection, all that was accepted for it arrives.
 *   - A connection that is closed after its output, and whose client reads to the end, delivers all
 *     that was accepted. A connection that is not reset ends in an orderly way.
 *   - open and close, pressure over and below come in pairs; nothing is left over after a stop.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "io/drivers.h"
#include "stress/watchdog.h"

#define MS(n) ((n)*INT64_C(1000000))
#define S(n) ((n)*INT64_C(1000000000))

enum {
    CLIENTS = 6,
    SENDERS = 3, /* the last is a fiber of the server's pool */
    BUDGET = 4096,
    BUDGET_ALL = 3 * BUDGET,
    LINE_BYTES = 1024,
    UNANSWERED = 256, /* most requests without a response */
};

struct record {
    _Atomic(weft_conn_id) id; /* 0: not open yet */

    /* On the connection's worker only. They are not atomic, so that TSan finds other threads. */
    struct weft__rand rand;
    bool in_call, over, closed;

    /* Any thread. */
    atomic_bool ended;  /* `close` was called */
    atomic_bool closes; /* weft_server_close after its output was accepted */
    atomic_bool cut;    /* may be closed at once */
    atomic_bool quiet;  /* nothing may be asked of it, but to resume */
    atomic_int asking;  /* threads that ask something of it */
    atomic_ulong pressures;
    atomic_ulong accepted[SENDERS];

    /* The client's, at its end. */
    unsigned long received[SENDERS];
    unsigned long unanswered; /* whole requests */
    bool all_requested;       /* its end comes after the last request */
    bool read_to_end;

    struct record *next_paused; /* under load.lock */
    bool is_paused;             /* ... */
};

enum ending { AFTER_CLIENTS, IN_GRACE, AT_ONCE };

static struct {
    weft_pool *pool;
    weft_server *server;
    struct weft_addr tcp, local;
    enum ending ending;

    struct record *records; /* one for each connection */
    long connections;
    atomic_long begun, opened, closed; /* connections: by clients; for which `open` returned 0 */
    atomic_bool clients_done, stopping, aborting, stopped;
    atomic_ulong sent, refused, responses;
    long stop_at;
    sem_t stop_due;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct record *paused; /* to be resumed; under lock */
    bool end;              /* under lock */
} load = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned dice(struct weft__rand *rand, unsigned sides)
{
    return weft__rand_next(rand) % sides;
}

/* A line, with its end. */
static size_t compose(char line[LINE_BYTES], char kind, uint64_t whose, unsigned sender,
                      unsigned long number)
{
    int n = snprintf(line, LINE_BYTES, "%c %" PRIx64 " %u %lu ", kind, whose, sender, number);
    size_t padding = (number * 7919 + sender * 31) % (number % 16 ? 200 : 900);
    memset(line + n, 'a' + (int)(number % 26), padding);
    line[(size_t)n + padding] = '\n';
    return (size_t)n + padding + 1;
}

/* --- the protocol ----------------------------------------------------------------------------- */

static struct record *find(weft_conn_id id)
{
    for (long i = atomic_load(&load.opened) - 1; i >= 0; i--) {
        if (atomic_load(&load.records[i].id) == id) {
            return &load.records[i];
        }
    }
    CHECK(!"an id that was never given");
    return NULL;
}

/* Functions of one connection are called one at a time. */
static struct record *enter(weft_conn *conn)
{
    struct record *record = weft_conn_data(conn);
    CHECK(record && !record->in_call && !record->closed);
    CHECK_EQ(record->id, weft_conn_get_id(conn));
    record->in_call = true;
    if (dice(&record->rand, 16) == 0) {
        weft_yield();
    }
    return record;
}

static int leave(struct record *record, int result)
{
    record->in_call = false;
    return result;
}

static int greet(weft_conn *conn, void *arg)
{
    char line[LINE_BYTES];
    (void)arg;
    CHECK(weft_conn_data(conn) == NULL && weft_conn_peer(conn)->len > 0);
    if (weft_conn_get_id(conn) >> 32 & 1 && weft_conn_get_id(conn) % 4 == 1) {
        return -EACCES; /* some are turned away */
    }
    long i = atomic_fetch_add(&load.opened, 1);
    struct record *record = &load.records[i];
    CHECK(i < load.connections);
    weft__rand_seed(&record->rand, check_seed() + (uint64_t)i);
    weft_conn_set_data(conn, record);
    atomic_store(&record->id, weft_conn_get_id(conn)); /* from here on senders find it */
    enter(conn);
    int n = snprintf(line, sizeof line, "I %" PRIx64 " %ld\n", weft_conn_get_id(conn), i);
    weft_conn_send(conn, line, (size_t)n, WEFT_FOREVER);
    return leave(record, 0);
}

static void request_resume(struct record *record)
{
    pthread_mutex_lock(&load.lock);
    if (!record->is_paused) {
        record->is_paused = true;
        record->next_paused = load.paused;
        load.paused = record;
        pthread_cond_signal(&load.changed);
    }
    pthread_mutex_unlock(&load.lock);
}

/* In pieces, which stay together, or as a buffer. */
static int respond(weft_conn *conn, struct record *record, const char *line, size_t n)
{
    if (dice(&record->rand, 4) == 0) {
        weft_buf *buf = weft_buf_alloc(n + 1, 0);
        memcpy(weft_buf_put(buf, n), line, n);
        *weft_buf_put(buf, 1) = '\n';
        return weft_conn_send_buf(conn, buf, WEFT_FOREVER);
    }
    size_t half = n / 2;
    int err = weft_conn_send(conn, line, half, WEFT_FOREVER);
    if (!err && dice(&record->rand, 16) == 0) {
        weft_yield();
    }
    err = err ? err : weft_conn_send(conn, line + half, n - half, WEFT_FOREVER);
    return err ? err : weft_conn_send(conn, "\n", 1, WEFT_FOREVER);
}

static int handle(weft_conn *conn, const char *line, size_t n, void *arg)
{
    struct record *record = enter(conn);
    (void)arg;
    CHECK(n > 0);
    int err = respond(conn, record, line, n);
    switch (line[0]) {
    case 'Z':
        weft_conn_pause(conn);
        request_resume(record);
        break;
    case 'C':
        weft_conn_close(conn);
        break;
    case 'F':
        err = -EPROTO;
        break;
    }
    return leave(record, err);
}

static int say_goodbye(weft_conn *conn, void *arg)
{
    struct record *record = enter(conn);
    (void)arg;
    CHECK(atomic_load(&load.stopping));
    return leave(record, weft_conn_send(conn, "G\n", 2, WEFT_FOREVER));
}

/* Not one of the calls that come one at a time: the sender may make it while a handler waits. */
static void note_pressure(weft_conn_id id, bool over, void *arg)
{
    struct record *record = find(id);
    (void)arg;
    CHECK(!record->closed && record->over != over);
    record->over = over;
    atomic_fetch_add(&record->pressures, over);
}

static void note_close(weft_conn *conn, enum weft_conn_end why, void *arg)
{
    struct record *record = enter(conn);
    (void)arg;
    CHECK(why != WEFT_CONN_END_TIMEOUT && why != WEFT_CONN_END_EVICTED);
    CHECK(why != WEFT_CONN_END_STOPPED || atomic_load(&load.stopping));
    CHECK_EQ(weft_conn_send(conn, "x", 1, WEFT_FOREVER), -EPIPE);
    record->closed = true;
    atomic_store(&record->ended, true);
    atomic_fetch_add(&load.closed, 1);
    leave(record, 0);
}

static const struct weft_protocol protocol = {.framing = WEFT_FRAMING_LINE,
                                              .open = greet,
                                              .handle = handle,
                                              .goodbye = say_goodbye,
                                              .pressure = note_pressure,
                                              .close = note_close};

/* --- requests by id --------------------------------------------------------------------------- */

/* Returns false if nothing may be asked of the connection now. */
static bool begin_asking(struct record *record)
{
    atomic_fetch_add(&record->asking, 1);
    if (!atomic_load(&record->quiet)) {
        return true;
    }
    atomic_fetch_sub(&record->asking, 1);
    return false;
}

static void end_asking(struct record *record)
{
    atomic_fetch_sub(&record->asking, 1);
}

static void make_quiet(struct record *record)
{
    atomic_store(&record->quiet, true);
    while (atomic_load(&record->asking)) {
        sched_yield();
    }
}

static void free_if(int err, weft_buf *buf)
{
    if (err) {
        weft_buf_free(buf);
    }
}

/* Returns false if the connection takes nothing now. */
static bool send_line(struct record *record, unsigned sender)
{
    char line[LINE_BYTES];
    bool ended = atomic_load(&record->ended);
    unsigned long number = atomic_load(&record->accepted[sender]);
    size_t n = compose(line, 'P', record->id, sender, number);
    weft_buf *buf = weft_buf_copy(line, n);
    int err = weft_server_send(load.server, record->id, buf);
    free_if(err, buf);
    CHECK(err == 0 || err == -EAGAIN || err == -ENOTCONN);
    CHECK(err == -ENOTCONN || !ended);
    atomic_fetch_add(&load.refused, err == -EAGAIN);
    if (!err) {
        atomic_store(&record->accepted[sender], number + 1);
        atomic_fetch_add_explicit(&load.sent, 1, memory_order_relaxed);
    }
    return !err;
}

/* A buffer without bytes, and one that is over the budget by itself. */
static void send_odd_sizes(struct record *record)
{
    weft_buf *empty = weft_buf_alloc(1, 0), *large = weft_buf_alloc(BUDGET + 1, 0);
    weft_buf_put(large, BUDGET + 1);
    int err = weft_server_send(load.server, record->id, large);
    CHECK(err == -EMSGSIZE || err == -ENOTCONN);
    weft_buf_free(large);
    err = weft_server_send(load.server, record->id, empty);
    free_if(err, empty);
    CHECK(err == 0 || err == -ENOTCONN);
}

static void close_by_id(struct record *record, bool now)
{
    if (now) {
        atomic_store(&record->cut, true);
    }
    int err = weft_server_close(load.server, record->id, now);
    CHECK(err == 0 || err == -ENOTCONN);
    if (!err && !now) {
        atomic_store(&record->closes, true);
    }
}

static void resume(struct record *record)
{
    int err = weft_server_resume(load.server, record->id);
    CHECK(err == 0 || err == -ENOTCONN);
}

static void check_numbers(void)
{
    struct weft_server_stats stats;
    struct weft_conn_info slowest[3];
    weft_server_stats(load.server, &stats);
    CHECK(stats.output_bytes <= BUDGET_ALL);
    size_t n = weft_server_slowest(load.server, slowest, 3);
    CHECK(n <= 3);
    for (size_t i = 0; i < n; i++) {
        CHECK(find(slowest[i].id) && slowest[i].peer.len > 0);
        CHECK(slowest[i].output_bytes > 0 && slowest[i].output_bytes <= BUDGET);
        CHECK(i == 0 || slowest[i].output_bytes <= slowest[i - 1].output_bytes);
    }
}

/* Mostly one that may be open; NULL if there is none. */
static struct record *choose(struct weft__rand *rand)
{
    long opened = atomic_load(&load.opened), recent = 2 * CLIENTS;
    struct weft_conn_info slowest;
    if (opened == 0) {
        return NULL;
    }
    if (dice(rand, 4) == 0 && weft_server_slowest(load.server, &slowest, 1) == 1) {
        return find(slowest.id);
    }
    long from = opened > recent && dice(rand, 16) ? opened - recent : 0;
    struct record *record = &load.records[from + dice(rand, (unsigned)(opened - from))];
    return atomic_load(&record->id) ? record : NULL;
}

/* Returns false if it is better to let others run. */
static bool ask_once(struct weft__rand *rand, unsigned sender)
{
    struct record *record = choose(rand);
    if (!record || !begin_asking(record)) {
        return false;
    }
    bool good = true;
    unsigned what = dice(rand, 4096);
    if (what < 8) {
        close_by_id(record, what < 2);
    } else if (what < 64) {
        resume(record);
    } else if (what < 128) {
        check_numbers();
    } else if (what < 192) {
        send_odd_sizes(record);
    } else {
        good = send_line(record, sender);
    }
    end_asking(record);
    return good && dice(rand, 8);
}

static void *send_in_thread(void *arg)
{
    unsigned sender = (unsigned)(uintptr_t)arg;
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + 1000 + sender);
    while (!atomic_load(&load.clients_done)) {
        if (!ask_once(&rand, sender)) {
            sched_yield();
        }
    }
    return NULL;
}

static void *send_in_fiber(void *arg)
{
    struct weft__rand rand;
    (void)arg;
    weft__rand_seed(&rand, check_seed() + 2000);
    while (!atomic_load(&load.clients_done)) {
        ask_once(&rand, SENDERS - 1);
        weft_yield();
    }
    return NULL;
}

static void *resume_paused(void *arg)
{
    pthread_mutex_lock(&load.lock);
    while (!load.end) {
        struct record *record = load.paused;
        if (!record) {
            pthread_cond_wait(&load.changed, &load.lock);
            continue;
        }
        load.paused = record->next_paused;
        record->is_paused = false;
        pthread_mutex_unlock(&load.lock);
        resume(record);
        pthread_mutex_lock(&load.lock);
    }
    pthread_mutex_unlock(&load.lock);
    return arg;
}

/* --- a client --------------------------------------------------------------------------------- */

struct client {
    struct weft__rand rand;
    int fd;
    struct record *record; /* NULL before the greeting */
    weft_conn_id id;       /* 0: not known yet */
    uint64_t tag;
    unsigned long requested, responded, received[SENDERS];
    char kinds[UNANSWERED]; /* of the requests without a response */
    bool ended, reset;      /* by the server */
    bool said_goodbye;
    bool reads_little;
    size_t have, out_from, out_to;
    char in[8192], out[UNANSWERED * LINE_BYTES];
};

/* Before the greeting, a client does not know what is asked of its connection. */
static bool may_be_cut(const struct client *c)
{
    return atomic_load(&load.aborting) || !c->record || atomic_load(&c->record->cut);
}

static void check_greeting(struct client *c, const char *line)
{
    uint64_t id;
    long i;
    CHECK(!c->record && sscanf(line, "I %" SCNx64 " %ld", &id, &i) == 2);
    CHECK(i >= 0 && i < atomic_load(&load.opened));
    c->record = &load.records[i];
    CHECK_EQ(id, c->record->id);
    CHECK(c->id == 0 || c->id == id);
    c->id = id;
}

static void check_sent_by_id(struct client *c, const char *line, size_t n)
{
    char expected[LINE_BYTES];
    uint64_t id;
    unsigned sender;
    CHECK(sscanf(line, "P %" SCNx64 " %u ", &id, &sender) == 2 && sender < SENDERS);
    c->id = c->id ? c->id : id;
    size_t whole = compose(expected, 'P', c->id, sender, c->received[sender]++);
    if (whole != n || memcmp(line, expected, n) != 0) {
        fprintf(stderr, "expected %.*sgot %.*s", (int)whole, expected, (int)n, line);
        CHECK(!"a line that was sent by id is missing, or torn");
    }
}

static void check_response(struct client *c, const char *line, size_t n)
{
    char expected[LINE_BYTES];
    CHECK(c->responded < c->requested);
    char kind = c->kinds[c->responded % UNANSWERED];
    CHECK_EQ(compose(expected, kind, c->tag, 0, c->responded++), n);
    CHECK(memcmp(line, expected, n) == 0);
}

static void check_line(struct client *c, const char *line, size_t n)
{
    switch (line[0]) {
    case 'I':
        check_greeting(c, line);
        break;
    case 'P':
        check_sent_by_id(c, line, n);
        break;
    case 'G':
        CHECK(n == 2 && !c->said_goodbye && atomic_load(&load.stopping));
        c->said_goodbye = true;
        break;
    default:
        check_response(c, line, n);
        break;
    }
}

static void check_lines(struct client *c)
{
    size_t from = 0;
    const char *end;
    while ((end = memchr(c->in + from, '\n', c->have - from))) {
        size_t n = (size_t)(end - (c->in + from)) + 1;
        check_line(c, c->in + from, n);
        from += n;
    }
    c->have -= from;
    memmove(c->in, c->in + from, c->have);
    CHECK(c->have < LINE_BYTES);
}

static void note_error(struct client *c)
{
    CHECK(errno == EPIPE || errno == ECONNRESET);
    CHECK(may_be_cut(c));
    c->ended = c->reset = true;
}

static void read_some(struct client *c)
{
    size_t space = c->reads_little ? 1 + dice(&c->rand, 100) : sizeof c->in - c->have;
    ssize_t n = recv(c->fd, c->in + c->have, space, MSG_DONTWAIT);
    if (n > 0) {
        c->have += (size_t)n;
        check_lines(c);
    } else if (n == 0) {
        CHECK(c->have == 0 || may_be_cut(c));
        c->ended = true;
    } else if (errno != EAGAIN && errno != EINTR) {
        note_error(c);
    }
}

static void write_some(struct client *c)
{
    size_t n = c->out_to - c->out_from;
    n = dice(&c->rand, 4) ? n : 1 + dice(&c->rand, (unsigned)n);
    ssize_t written = send(c->fd, c->out + c->out_from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written > 0) {
        c->out_from += (size_t)written;
    } else if (errno != EAGAIN && errno != EINTR) {
        note_error(c);
    }
}

/* Writes what there is to write, and reads. With reads = false, does not wait; otherwise it may
 * return early, with nothing done. */
static void step(struct client *c, bool reads)
{
    bool writes = c->out_from < c->out_to;
    struct pollfd pfd = {.fd = c->fd,
                         .events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))};
    if (poll(&pfd, 1, reads ? 100 : 0) <= 0) {
        return;
    }
    if (writes && pfd.revents & (POLLOUT | POLLERR | POLLHUP)) {
        write_some(c);
    }
    if (reads && !c->ended && pfd.revents & (POLLIN | POLLERR | POLLHUP)) {
        read_some(c);
    }
}

static void request(struct client *c, char kind)
{
    if (c->requested - c->responded == UNANSWERED) {
        return;
    }
    if (c->out_from == c->out_to) {
        c->out_from = c->out_to = 0;
    }
    if (sizeof c->out - c->out_to >= LINE_BYTES) {
        c->kinds[c->requested % UNANSWERED] = kind;
        c->out_to += compose(c->out + c->out_to, kind, c->tag, 0, c->requested++);
    }
}

static void await_responses(struct client *c)
{
    while (!c->ended && c->responded < c->requested) {
        step(c, true);
    }
}

static void read_to_end(struct client *c)
{
    while (!c->ended) {
        step(c, true);
    }
}

static bool has_received_all(const struct client *c)
{
    for (int i = 0; i < SENDERS; i++) {
        unsigned long accepted = atomic_load(&c->record->accepted[i]);
        CHECK(c->received[i] <= accepted);
        if (c->received[i] < accepted) {
            return false;
        }
    }
    return true;
}

/* Nothing is asked of the connection, nor does the client send anything: what was accepted has to
 * arrive all the same. */
static void await_accepted(struct client *c)
{
    make_quiet(c->record);
    while (!c->ended && !has_received_all(c)) {
        step(c, true);
    }
    atomic_store(&c->record->quiet, false);
}

/* Reads nothing until the budget is used up, but continues to send requests. */
static void read_late(struct client *c)
{
    unsigned long before = atomic_load(&c->record->pressures);
    for (int i = 0; i < 1000 && !atomic_load(&c->record->ended) && !c->ended; i++) {
        if (atomic_load(&c->record->pressures) != before && dice(&c->rand, 64) == 0) {
            return;
        }
        if (dice(&c->rand, 64) == 0) {
            request(c, 'E');
        }
        step(c, false);
        sched_yield();
    }
}

/* A handshake that the stop has cut is complete for the client only: it learns that when it
 * sends. */
static void await_greeting(struct client *c)
{
    while (!c->ended && !c->record) {
        if (c->requested == 0 && atomic_load(&load.stopped)) {
            request(c, 'E');
        }
        step(c, true);
    }
}

static void converse(struct client *c)
{
    await_greeting(c);
    for (unsigned rounds = dice(&c->rand, 16); rounds > 0 && !c->ended; rounds--) {
        unsigned what = dice(&c->rand, 8);
        for (unsigned n = what == 0 ? 100 : dice(&c->rand, 6); n > 0; n--) {
            request(c, dice(&c->rand, 16) ? 'E' : 'Z');
        }
        if (what == 1) {
            read_late(c);
        } else {
            await_responses(c);
        }
        if (what < 4 && !c->ended) {
            await_accepted(c);
        }
        watchdog_progress();
    }
}

/* --- the end of a connection ------------------------------------------------------------------ */

/* The server learns that nothing more comes. */
static void end_requests(struct client *c)
{
    while (!c->ended && c->out_from < c->out_to) {
        step(c, true);
    }
    if (!c->ended) {
        CHECK(shutdown(c->fd, SHUT_WR) == 0 || may_be_cut(c));
    }
}

static void end_by_server(struct client *c, bool now)
{
    bool quiet = dice(&c->rand, 2);
    if (quiet) {
        make_quiet(c->record);
    }
    close_by_id(c->record, now);
    read_to_end(c);
}

static void finish(struct client *c)
{
    bool all_requested = false;
    switch (c->ended ? 0 : dice(&c->rand, 8)) {
    case 0:
    case 1: /* hang up, sometimes within a request */
        request(c, 'E');
        step(c, false);
        break;
    case 2:
    case 3:
        end_requests(c);
        read_to_end(c);
        all_requested = true;
        break;
    case 4:
    case 5:
        request(c, dice(&c->rand, 2) ? 'C' : 'F');
        all_requested = true;
        read_to_end(c);
        break;
    case 6:
        end_by_server(c, false);
        break;
    case 7:
        end_by_server(c, true);
        break;
    }
    struct record *record = c->record;
    if (record) {
        memcpy(record->received, c->received, sizeof record->received);
        record->read_to_end = c->ended && !c->reset;
        record->all_requested = all_requested;
        record->unanswered = c->requested - c->responded;
    }
    atomic_fetch_add(&load.responses, c->responded);
}

/* Returns -1 if the server has stopped. A handshake that the server holds off is not waited for. */
static int connect_to(const struct weft_addr *at, bool small)
{
    int family = at->storage.ss_family, err;
    socklen_t len = sizeof err;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    if (small) { /* the server's send buffer is small too */
        CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)), 0);
        if (family != AF_UNIX) {
            setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &(int){1000}, sizeof(int));
        }
    }
    do {
        err = connect(fd, (const struct sockaddr *)&at->storage, at->len) == 0 ? 0 : errno;
    } while (err == EAGAIN || err == EINTR); /* the backlog of a Unix socket is full */
    struct pollfd done = {.fd = fd, .events = POLLOUT};
    while ((err == EINPROGRESS || err == EALREADY) && !atomic_load(&load.stopped)) {
        if (poll(&done, 1, 5) == 1) {
            CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
        }
    }
    if (err == ECONNRESET) { /* a sender has closed it at once, before the client ran again */
        return fd;
    }
    if (err) {
        if (!atomic_load(&load.stopping)) {
            fprintf(stderr, "connect: %s\n", strerror(err));
            CHECK(!"a server that does not stop refuses connections");
        }
        close(fd);
        return -1;
    }
    return fd;
}

static void *be_client(void *arg)
{
    struct client *c = malloc(sizeof *c);
    struct weft__rand rand;
    long number;
    weft__rand_seed(&rand, check_seed() + 3000 + (uintptr_t)arg);
    while ((number = atomic_fetch_add(&load.begun, 1)) < load.connections) {
        if (number == load.stop_at) {
            sem_post(&load.stop_due);
        }
        bool local = dice(&rand, 4) == 0;
        int fd = connect_to(local ? &load.local : &load.tcp, dice(&rand, 2));
        if (fd < 0) {
            break;
        }
        memset(c, 0, offsetof(struct client, in));
        c->rand = rand;
        c->fd = fd;
        c->tag = (uint64_t)number;
        c->reads_little = dice(&c->rand, 4) == 0;
        if (dice(&c->rand, 16)) {
            converse(c);
            finish(c);
        }
        close(fd);
        rand = c->rand;
        watchdog_progress();
    }
    free(c);
    return NULL;
}

/* --- a run ------------------------------------------------------------------------------------ */

static void make(enum weft_driver driver, int64_t rest_ns)
{
    struct weft_server_opts opts = {.limits = {.rest_ns = rest_ns,
                                               .idle_ns = S(1000),
                                               .message_ns = S(1000),
                                               .write_ns = S(1000),
                                               .linger_ns = S(1000),
                                               .grace_ns = MS(10),
                                               .output_bytes = BUDGET,
                                               .output_bytes_all = BUDGET_ALL}};
    load.pool = opts.pool = watched_open(&(struct weft_pool_opts){.workers = 2, .driver = driver});
    CHECK_EQ(weft_server_create(&load.server, &opts), 0);
    CHECK_EQ(weft_server_listen(load.server, &load.tcp, "127.0.0.1:0", &protocol, NULL), 0);
    CHECK_EQ(weft_server_listen(load.server, &load.local, "unix:@", &protocol, NULL), 0);
}

static void stop(void)
{
    struct weft_server_stats stats;
    atomic_store(&load.stopping, true);
    atomic_store(&load.aborting, load.ending == AT_ONCE);
    int64_t deadline = load.ending == AT_ONCE ? 0 : weft_after(S(1000));
    CHECK_EQ(weft_server_stop(load.server, deadline), 0);
    atomic_store(&load.stopped, true);
    weft_server_stats(load.server, &stats);
    CHECK_EQ(stats.open, 0);
    CHECK_EQ(stats.at_rest, 0);
    CHECK_EQ(stats.output_bytes, 0);
    CHECK_EQ(load.opened, load.closed);
    CHECK(load.ending == AT_ONCE || stats.stop_aborted == 0);
}

static void check_record(struct record *record)
{
    bool whole = record->read_to_end && !record->cut && !load.aborting;
    CHECK(record->closed && !record->in_call);
    for (int i = 0; i < SENDERS; i++) {
        CHECK(record->received[i] <= record->accepted[i]);
        if (whole && record->closes) {
            CHECK_EQ(record->received[i], record->accepted[i]);
        }
    }
    if (whole && record->all_requested && !record->closes && load.ending == AFTER_CLIENTS) {
        CHECK_EQ(record->unanswered, 0);
    }
    CHECK(!send_line(record, 0));
    CHECK_EQ(weft_server_close(load.server, record->id, true), -ENOTCONN);
    CHECK_EQ(weft_server_resume(load.server, record->id), -ENOTCONN);
}

static void check_end(void)
{
    struct weft_server_stats stats;
    for (long i = 0; i < load.opened; i++) {
        check_record(&load.records[i]);
    }
    weft_server_stats(load.server, &stats);
    CHECK_EQ(stats.output_refused, load.refused);
    CHECK(stats.messages >= load.responses);
    printf("    %ld connections, %lu responses, %lu sent by id, %lu refused, %lu wakes\n",
           load.opened, load.responses, load.sent, load.refused, (unsigned long)stats.wakes);
    fflush(stdout);
    weft_server_destroy(load.server);
    watched_close(load.pool);
}

static void begin(enum weft_driver driver, int64_t rest_ns, long connections, enum ending ending)
{
    load.ending = ending;
    load.connections = connections;
    load.records = calloc((size_t)connections, sizeof *load.records);
    load.begun = load.opened = load.closed = 0;
    load.clients_done = load.stopping = load.aborting = load.stopped = false;
    load.sent = load.refused = load.responses = 0;
    load.stop_at = -1;
    load.paused = NULL;
    load.end = false;
    CHECK_EQ(sem_init(&load.stop_due, 0, 0), 0);
    make(driver, rest_ns);
}

static void end_resuming(pthread_t thread)
{
    pthread_mutex_lock(&load.lock);
    load.end = true;
    pthread_cond_signal(&load.changed);
    pthread_mutex_unlock(&load.lock);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* stop_at: the connection at whose begin the server stops, unless it stops after the clients. */
static void run_load(long stop_at)
{
    pthread_t clients[CLIENTS], senders[SENDERS - 1], resumer;
    weft_fiber fiber;
    load.stop_at = stop_at;
    CHECK_EQ(pthread_create(&resumer, NULL, resume_paused, NULL), 0);
    CHECK_EQ(weft_pool_spawn(load.pool, &fiber, send_in_fiber, NULL, NULL), 0);
    for (uintptr_t i = 0; i < SENDERS - 1; i++) {
        CHECK_EQ(pthread_create(&senders[i], NULL, send_in_thread, (void *)i), 0);
    }
    for (uintptr_t i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pthread_create(&clients[i], NULL, be_client, (void *)i), 0);
    }
    if (load.ending != AFTER_CLIENTS) {
        while (sem_wait(&load.stop_due) != 0) {
        }
        stop();
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pthread_join(clients[i], NULL), 0);
    }
    if (load.ending == AFTER_CLIENTS) {
        stop(); /* while senders go on */
    }
    atomic_store(&load.clients_done, true);
    for (int i = 0; i < SENDERS - 1; i++) {
        CHECK_EQ(pthread_join(senders[i], NULL), 0);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    end_resuming(resumer);
}

static void run(enum weft_driver driver, int64_t rest_ns, long connections, enum ending ending,
                long stop_at)
{
    struct weft_buf_stats before, after;
    weft_buf_stats(&before);
    begin(driver, rest_ns, connections, ending);
    run_load(stop_at);
    check_end();
    sem_destroy(&load.stop_due);
    free(load.records);
    weft_buf_stats(&after);
    CHECK_EQ(after.live, before.live);
}

EACH_DRIVER(accepted_output_arrives_whole_and_in_order)
{
    watchdog_start("output by id");
    run(driver, 1, check_scale(100), AFTER_CLIENTS, -1);
    run(driver, MS(1), check_scale(100), AFTER_CLIENTS, -1);
    watchdog_stop();
}

static void run_stops(enum weft_driver driver, enum ending ending)
{
    long stops = check_scale(6), connections = 60;
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed());
    for (long i = 0; i < stops; i++) {
        run(driver, i % 2 ? MS(1) : 1, connections, ending, dice(&rand, (unsigned)connections));
    }
}

EACH_DRIVER(stop_with_grace_under_load_leaves_nothing)
{
    watchdog_start("stop with a grace period");
    run_stops(driver, IN_GRACE);
    watchdog_stop();
}

EACH_DRIVER(stop_at_once_under_load_leaves_nothing)
{
    watchdog_start("stop at once");
    run_stops(driver, AT_ONCE);
    watchdog_stop();
}
