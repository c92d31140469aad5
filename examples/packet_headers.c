/* Packets with headers of several layers, built and taken apart in place. Every layer adds its
 * header in front of the bytes of the layer above, in room that was left for it, and the receiver
 * strips them in turn: the payload is written once and never moved. A view that is shared is
 * copied before it is changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

/*   | link: length | transport: port, sequence | messages ... | checksum |   */
enum { LINK_BYTES = 2, TRANSPORT_BYTES = 2, SUM_BYTES = 1, PACKET_BYTES = 64 };

static unsigned char sum_of(const unsigned char *bytes, size_t n)
{
    unsigned char sum = 0;
    while (n--) {
        sum = (unsigned char)(sum + *bytes++);
    }
    return sum;
}

/* --- sending ---------------------------------------------------------------------------- */

/* Puts as many messages as there is room for into one packet. *taken gets their number. */
static weft_buf *make_payload(const char *const *messages, int n, int *taken)
{
    weft_buf *buf = weft_buf_alloc(PACKET_BYTES, LINK_BYTES + TRANSPORT_BYTES);
    for (*taken = 0; buf && *taken < n; ++*taken) {
        size_t len = strlen(messages[*taken]) + 1;
        if (weft_buf_tailroom(buf) < len + SUM_BYTES) {
            break;
        }
        memcpy(weft_buf_put(buf, len), messages[*taken], len);
    }
    return buf;
}

static void add_headers(weft_buf *buf, unsigned char port, unsigned char sequence)
{
    unsigned char *transport = weft_buf_push(buf, TRANSPORT_BYTES);
    transport[0] = port;
    transport[1] = sequence;
    size_t len = buf->len;
    unsigned char *link = weft_buf_push(buf, LINK_BYTES);
    link[0] = (unsigned char)(len >> 8);
    link[1] = (unsigned char)len;
    unsigned char sum = sum_of(buf->data, buf->len);
    *weft_buf_put(buf, SUM_BYTES) = sum;
}

/* --- receiving -------------------------------------------------------------------------- */

/* Checks a packet and strips it down to its payload. */
static int strip_headers(weft_buf *buf, int *port)
{
    if (buf->len < LINK_BYTES + TRANSPORT_BYTES + SUM_BYTES ||
        sum_of(buf->data, buf->len - SUM_BYTES) != buf->data[buf->len - SUM_BYTES]) {
        return -EBADMSG;
    }
    size_t len = (size_t)buf->data[0] << 8 | buf->data[1];
    weft_buf_trim(buf, SUM_BYTES);
    weft_buf_pull(buf, LINK_BYTES);
    if (len != buf->len) {
        return -EBADMSG;
    }
    *port = buf->data[0];
    weft_buf_pull(buf, TRANSPORT_BYTES);
    return 0;
}

/* Removes the next message from a payload. Returns a view of its own, which outlives the packet;
 * NULL if there is no other message. */
static weft_buf *next_message(weft_buf *payload)
{
    const unsigned char *end = memchr(payload->data, 0, payload->len);
    if (!end) {
        return NULL;
    }
    size_t len = (size_t)(end - payload->data);
    weft_buf *message = weft_buf_slice(payload, 0, len);
    weft_buf_pull(payload, len + 1);
    return message;
}

/* Returns a buffer with these bytes that may be changed; takes buf. */
static weft_buf *make_writable(weft_buf *buf)
{
    if (weft_buf_is_writable(buf)) {
        return buf;
    }
    weft_buf *copy = weft_buf_copy(buf->data, buf->len);
    weft_buf_free(buf);
    return copy;
}

static void release(const void *memory, size_t len, void *arg)
{
    (void)memory;
    (void)len;
    free(arg);
}

/* A packet as a device driver delivers it: in memory of its own, which is wrapped, not copied. */
static weft_buf *deliver(const weft_buf *packet)
{
    unsigned char *memory = malloc(packet->len);
    if (!memory) {
        return NULL;
    }
    memcpy(memory, packet->data, packet->len);
    weft_buf *buf = weft_buf_wrap(memory, packet->len, release, memory);
    if (!buf) {
        free(memory);
    }
    return buf;
}

int main(void)
{
    char large[1000] = "";
    memset(large, 'x', sizeof large - 1);
    const char *const messages[] = {"one", "two", "three", large};
    int taken = 0, port = 0, count = 0;
    weft_buf *sent = make_payload(messages, 4, &taken);
    if (!sent) {
        return 1;
    }
    add_headers(sent, 7, 1);
    weft_buf *packet = deliver(sent), *message;
    weft_buf_free(sent);
    if (!packet || strip_headers(packet, &port) != 0) {
        fprintf(stderr, "packet_headers: bad packet\n");
        weft_buf_free(packet);
        return 1;
    }
    while ((message = next_message(packet)) && (message = make_writable(message))) {
        message->data[0] = (unsigned char)(message->data[0] - 'a' + 'A');
        printf("port %d: %.*s\n", port, (int)message->len, (const char *)message->data);
        weft_buf_free(message);
        count++;
    }
    weft_buf_free(packet);
    printf("%d of 4 messages were in the packet\n", count);
    return count == taken && count == 3 && port == 7 ? 0 : 1;
}
