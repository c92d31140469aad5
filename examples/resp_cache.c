/* A cache that speaks the Redis protocol: PING, GET and SET. The server cuts the bytes into values, the
 * handler answers one command. An entry is a key and its value as the client has sent them: the value
 * is also the answer to a GET. A new key replaces the key that has the same slot.
 * With an address it serves until it is interrupted:  resp_cache 127.0.0.1:6400
 *     redis-benchmark -p 6400 -t get,set -P 16
 * Without one it sends itself some commands and checks the answers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <weft/weft.h>

enum { SLOTS = 1 << 16, WORDS = 3 };

static weft_buf *slots[SLOTS];
static weft_mutex lock; /* guards the slots */

/* A word is a string as it was sent: "$3\r\nGET\r\n". */
static bool is(struct weft_framed word, const char *text)
{
    return word.len == strlen(text) && strncasecmp((const char *)word.bytes, text, word.len) == 0;
}

static weft_buf **slot_of(struct weft_framed key)
{
    unsigned hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ key.bytes[i]) * 16777619u;
    }
    return &slots[hash % SLOTS];
}

static int reply(weft_conn *conn, const char *text)
{
    return weft_conn_send(conn, text, strlen(text), WEFT_FOREVER);
}

static int get(weft_conn *conn, struct weft_framed key)
{
    weft_buf *value = NULL;
    if (weft_mutex_lock(&lock, WEFT_FOREVER) != 0) {
        return -ECANCELED;
    }
    const weft_buf *entry = *slot_of(key);
    if (entry && entry->len > key.len && memcmp(entry->data, key.bytes, key.len) == 0) {
        value = weft_buf_slice(entry, key.len, entry->len - key.len); /* not a copy */
    }
    weft_mutex_unlock(&lock);
    return value ? weft_conn_send_buf(conn, value, WEFT_FOREVER) : reply(conn, "$-1\r\n");
}

static int set(weft_conn *conn, struct weft_framed key, struct weft_framed value)
{
    weft_buf *entry = weft_buf_copy(key.bytes, key.len + value.len); /* the value follows the key */
    weft_buf **slot = slot_of(key);
    if (!entry || weft_mutex_lock(&lock, WEFT_FOREVER) != 0) {
        weft_buf_free(entry);
        return -ENOMEM;
    }
    weft_buf *old = *slot;
    *slot = entry;
    weft_mutex_unlock(&lock);
    weft_buf_free(old);
    return reply(conn, "+OK\r\n");
}

static int run_command(weft_conn *conn, const char *message, size_t n, void *arg)
{
    const unsigned char *at = (const unsigned char *)message, *end = at + n;
    struct weft_framed words[WORDS]; /* a command is an array of strings */
    size_t count = 0;
    weft_resp decoder;
    weft_resp_init(&decoder, arg);
    for (ssize_t used; at < end; at += used) {
        struct weft_resp_item item;
        used = weft_resp_next(&decoder, &item, at, (size_t)(end - at));
        if (used <= 0 || (item.depth > 0 && item.type != WEFT_RESP_BULK_STRING)) {
            return -EBADMSG;
        }
        if (item.depth > 0 && count++ < WORDS) {
            words[count - 1] = (struct weft_framed){at, (size_t)used};
        }
    }
    return count == 1 && is(words[0], "$4\r\nPING\r\n")  ? reply(conn, "+PONG\r\n")
           : count == 2 && is(words[0], "$3\r\nGET\r\n") ? get(conn, words[1])
           : count == 3 && is(words[0], "$3\r\nSET\r\n") ? set(conn, words[1], words[2])
                                                         : reply(conn, "-ERR unknown command\r\n");
}

static void *serve(void *address)
{
    static const struct weft_protocol resp = {.framing = WEFT_FRAMING_RESP, .handle = run_command};
    static const char sent[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nhi\r\n*2\r\n$3\r\nget\r\n$1\r\n"
                               "k\r\n*2\r\n$1\r\nG\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";
    static const char expected[] = "+OK\r\n$2\r\nhi\r\n-ERR unknown command\r\n+PONG\r\n";
    char got[sizeof expected] = "";
    weft_server *server;
    struct weft_addr at;
    if (weft_server_create(&server, NULL) != 0 ||
        weft_server_listen(server, &at, address ? address : "127.0.0.1:0", &resp, NULL) != 0) {
        return (void *)1;
    }
    fprintf(stderr, "resp_cache: listening on port %d\n", weft_addr_port(&at));
    weft_sleep(address ? WEFT_FOREVER : 0); /* Ctrl-C ends the program */
    int fd = weft_connect(&at, WEFT_FOREVER);
    weft_write_all(fd, sent, sizeof sent - 1, NULL, WEFT_FOREVER);
    weft_read_full(fd, got, sizeof got - 1, NULL, WEFT_FOREVER);
    weft_close(fd);
    weft_server_stop(server, weft_after(WEFT_SECONDS(5)));
    weft_server_destroy(server);
    return fputs(got, stdout) < 0 || strcmp(got, expected) != 0 ? (void *)1 : NULL;
}

int main(int argc, char **argv)
{
    void *failed = NULL;
    weft_mutex_init(&lock, NULL);
    return weft_run(&failed, serve, argc > 1 ? argv[1] : NULL, NULL, WEFT_FOREVER) || failed;
}
