/* A chat: each line of a client goes to all others. The room knows its members by id. A line is in
 * memory once, however many members receive it, and wakes no connection at rest. A client that does
 * not read is disconnected when its budget of queued output is used up.
 *
 *     /nick NAME    sets the client's name
 *     /quit         ends the connection
 *
 * With an address it serves until it is interrupted:  line_chat 127.0.0.1:7000   (nc 127.0.0.1 7000)
 * Without one, two clients talk to each other. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { MEMBERS = 1000, NAME_BYTES = 20, TEXT_BYTES = 400 };

static struct {
    weft_server *server;
    weft_mutex lock; /* guards the members */
    weft_conn_id members[MEMBERS];
    size_t count;
} room;

static void lock_room(void)
{
    weft_fiber_shield_enter(); /* a stop cancels handlers at its deadline */
    weft_mutex_lock(&room.lock, WEFT_FOREVER);
    weft_fiber_shield_leave();
}

static int answer(weft_conn *conn, const char *text)
{
    return weft_conn_send(conn, text, strlen(text), WEFT_FOREVER);
}

static void send_to_others(const weft_conn *from, const char *verb, const char *text, size_t n)
{
    char line[NAME_BYTES + TEXT_BYTES + 16];
    const char *name = weft_conn_data(from) ? weft_conn_data(from) : "guest";
    int len = snprintf(line, sizeof line, "%s%s%.*s\n", name, verb, (int)n, text);
    weft_buf *buf = weft_buf_copy(line, (size_t)len);
    lock_room();
    for (size_t i = 0; buf && i < room.count; i++) {
        weft_buf *view = room.members[i] == weft_conn_get_id(from) ? NULL : weft_buf_share(buf);
        if (view && weft_server_send(room.server, room.members[i], view) != 0) {
            weft_buf_free(view); /* the member has left, or does not read: disconnect() */
        }
    }
    weft_mutex_unlock(&room.lock);
    weft_buf_free(buf);
}

/* --- the protocol ----------------------------------------------------------------------------- */

static int enter(weft_conn *conn, void *arg)
{
    char address[WEFT_ADDR_STRLEN];
    (void)arg;
    lock_room();
    bool admitted = room.count < MEMBERS;
    if (admitted) {
        room.members[room.count++] = weft_conn_get_id(conn);
    }
    weft_mutex_unlock(&room.lock);
    weft_addr_format(weft_conn_peer(conn), address, sizeof address);
    fprintf(stderr, "line_chat: %s is %s\n", address, admitted ? "admitted" : "refused");
    answer(conn, admitted ? "welcome\n" : "the room is full\n"); /* an error ends it anyway */
    return admitted ? 0 : -EUSERS;
}

static int handle_line(weft_conn *conn, const char *line, size_t n, void *arg)
{
    (void)arg;
    if (n > 6 && memcmp(line, "/nick ", 6) == 0) {
        free(weft_conn_data(conn));
        weft_conn_set_data(conn, strndup(line + 6, n - 6 < NAME_BYTES ? n - 6 : NAME_BYTES));
        return answer(conn, "renamed\n");
    }
    if (n == 5 && memcmp(line, "/quit", 5) == 0) {
        weft_conn_close(conn); /* after the answer */
        return answer(conn, "bye\n");
    }
    send_to_others(conn, ": ", line, n);
    return 0;
}

static void leave(weft_conn *conn, enum weft_conn_end why, void *arg)
{
    (void)why, (void)arg;
    lock_room();
    for (size_t i = 0; i < room.count; i++) {
        if (room.members[i] == weft_conn_get_id(conn)) {
            room.members[i] = room.members[--room.count];
        }
    }
    weft_mutex_unlock(&room.lock);
    send_to_others(conn, " has left", "", 0);
    free(weft_conn_data(conn));
}

static void disconnect(weft_conn_id id, bool over, void *arg)
{
    (void)arg;
    if (over) {
        weft_server_close(room.server, id, true);
    }
}

static int say_goodbye(weft_conn *conn, void *arg)
{
    (void)arg;
    return answer(conn, "the server stops\n");
}

static const struct weft_protocol chat = {.name = "chat",
                                          .framing = WEFT_FRAMING_LINE,
                                          .line = {.max = TEXT_BYTES},
                                          .open = enter,
                                          .handle = handle_line,
                                          .goodbye = say_goodbye,
                                          .pressure = disconnect,
                                          .close = leave};

/* --- two clients ------------------------------------------------------------------------------ */

static void say(int fd, const char *text)
{
    weft_write_all(fd, text, strlen(text), NULL, WEFT_FOREVER);
}

static void expect(int fd, const char *text)
{
    char got[128] = "";
    size_t n = strlen(text);
    if (weft_read_full(fd, got, n, NULL, WEFT_FOREVER) != 0 || memcmp(got, text, n) != 0) {
        fprintf(stderr, "line_chat: expected %s, got %s\n", text, got);
        exit(1);
    }
    fputs(got, stdout);
}

static void talk(const struct weft_addr *at)
{
    int ann = weft_connect(at, WEFT_FOREVER), bob = weft_connect(at, WEFT_FOREVER);
    say(ann, "/nick Ann\n");
    say(bob, "/nick Bob\n");
    expect(ann, "welcome\nrenamed\n");
    expect(bob, "welcome\nrenamed\n");
    say(ann, "hello, is anybody here?\n");
    expect(bob, "Ann: hello, is anybody here?\n");
    say(bob, "yes\n/quit\n");
    expect(bob, "bye\n");
    weft_close(bob);
    expect(ann, "Bob: yes\nBob has left\n");
    weft_close(ann);
}

static void *serve(void *arg)
{
    struct weft_addr at;
    weft_signal_set *signals;
    const struct weft_server_opts opts = {.limits.idle_ns = WEFT_FOREVER};
    int err = weft_server_create(&room.server, &opts);
    err = err ? err : weft_server_listen(room.server, &at, arg ? arg : "127.0.0.1:0", &chat, NULL);
    if (err) {
        fprintf(stderr, "line_chat: %s\n", weft_strerror(err));
        exit(1);
    }
    if (!arg) {
        talk(&at);
    } else if (weft_signal_open(&signals, (int[]){SIGINT, SIGTERM}, 2, NULL) == 0) {
        weft_signal_wait(signals, NULL, WEFT_FOREVER);
        weft_signal_close(signals);
    }
    weft_server_stop(room.server, weft_after(WEFT_SECONDS(5)));
    weft_server_destroy(room.server);
    return NULL;
}

int main(int argc, char **argv)
{
    weft_mutex_init(&room.lock, NULL);
    return weft_run(NULL, serve, argc > 1 ? argv[1] : NULL, NULL, WEFT_FOREVER) ? 1 : 0;
}
