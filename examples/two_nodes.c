/* Two processes whose actors send each other messages: two nodes, connected by a socket pair. The
 * transport is two functions: one writes a message into a packet, the other reads packets and
 * delivers them. Calls do not travel between nodes, so node 1 has a proxy: it sends the request of
 * a call to node 2 as a message, and the message that comes back becomes the reply. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

enum { CALLS = 3 };

/* --- the transport -------------------------------------------------------------------------- */

struct packet {
    enum weft_actor_event_kind kind;
    weft_pid from, to;
    uint64_t tag;
    char topic[16];
    int number; /* the messages of this program carry one number */
};

static int wire; /* a sequenced-packet socket: one packet, one message */

/* Called where an actor sends to the other node, so it does not wait: a full socket refuses. */
static int send_packet(struct weft_receiver *self, const struct weft_remote_message *message)
{
    struct packet packet;
    (void)self;
    memset(&packet, 0, sizeof packet); /* the padding, too */
    packet.kind = message->kind;
    packet.from = message->from;
    packet.to = message->to;
    packet.tag = message->tag;
    snprintf(packet.topic, sizeof packet.topic, "%s", message->topic ? message->topic : "");
    if (message->buf && message->buf->len == sizeof packet.number) {
        memcpy(&packet.number, message->buf->data, sizeof packet.number);
    }
    weft_buf_free(message->buf);
    return send(wire, &packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 ? 0 : -EHOSTUNREACH;
}

/* Delivers packets to the actors of this node until the peer closes its end. */
static void receive_packets(void)
{
    struct packet packet;
    while (recv(wire, &packet, sizeof packet, 0) == sizeof packet) {
        struct weft_remote_message message = {
            .kind = packet.kind,
            .from = packet.from,
            .to = packet.to,
            .tag = packet.tag,
            .topic = packet.topic,
            .buf = weft_buf_copy(&packet.number, sizeof packet.number),
        };
        weft_remote_message_deliver(&message); /* an error is counted: weft_node_stats */
    }
}

static struct weft_receiver peer = {send_packet};

/* --- node 2: an actor that squares numbers -------------------------------------------------- */

static int square(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        int number;
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            continue;
        }
        memcpy(&number, events[i].buf->data, sizeof number);
        number *= number;
        weft_actor_send(events[i].from, "result", events[i].tag,
                        weft_buf_copy(&number, sizeof number), WEFT_BY_POLICY);
    }
    return 0;
}

static const struct weft_actor_kind square_kind = {.name = "square", .step = square};

static int run_node_2(void)
{
    weft_host *host;
    weft_pid pid;
    struct packet hello;
    if (weft_node_set_id(2) || weft_route_add(1, &peer) ||
        weft_host_create(&host, &(struct weft_host_opts){.workers = 1}) ||
        weft_actor_spawn(host, &pid, &square_kind, NULL, NULL)) {
        return 1;
    }
    memset(&hello, 0, sizeof hello);
    hello.from = pid; /* the first packet says where the actor is */
    bool sent = send(wire, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
    if (sent) {
        receive_packets();
    }
    weft_route_remove(1);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    close(wire);
    return !sent || forced;
}

/* --- node 1: a caller, and a proxy for the actor of node 2 ---------------------------------- */

static weft_pid proxy, far;

/* A call goes to node 2 with its reference as the tag; the tag of a result is that reference. */
static int forward(struct weft_receiver *self, const struct weft_remote_message *message)
{
    struct weft_remote_message request = *message;
    (void)self;
    if (message->kind != WEFT_EVENT_CALL) {
        weft_actor_reply(message->tag, 0, message->buf);
        return 0;
    }
    request.kind = WEFT_EVENT_MESSAGE;
    request.from = proxy; /* where the result comes back to */
    request.to = far;
    return weft_remote_message_deliver(&request); /* by the route to node 2 */
}

static struct weft_receiver forwarder = {forward};

static int call_proxy(weft_actor *self, weft_buf **result)
{
    int sum = 0, err = 0;
    (void)self;
    for (int i = 1; i <= CALLS && !err; i++) {
        weft_buf *reply = NULL;
        int number = 0;
        err = weft_actor_call(proxy, &reply, "square", weft_buf_copy(&i, sizeof i),
                              weft_after(WEFT_MINUTES(5)));
        if (!err) {
            memcpy(&number, reply->data, sizeof number);
        }
        printf("node 2 says: the square of %d is %d\n", i, number);
        weft_buf_free(reply);
        sum += number;
    }
    shutdown(wire, SHUT_WR); /* node 2 ends, and then receive_packets here */
    *result = weft_buf_copy(&sum, sizeof sum);
    return err;
}

static int run_node_1(void)
{
    static const struct weft_actor_kind caller_kind = {.name = "caller", .run = call_proxy};
    weft_host *host;
    weft_pid caller;
    weft_buf *result = NULL;
    struct packet hello;
    struct weft_node_stats stats;
    int sum = 0;
    if (weft_node_set_id(1) || recv(wire, &hello, sizeof hello, 0) != sizeof hello ||
        weft_route_add(2, &peer) ||
        weft_host_create(&host, &(struct weft_host_opts){.workers = 1})) {
        return 1;
    }
    far = hello.from;
    if (weft_receiver_spawn(host, &proxy, &forwarder) ||
        weft_actor_spawn(host, &caller, &caller_kind, NULL, NULL)) {
        return 1;
    }
    receive_packets();
    if (weft_actor_join(caller, &result, WEFT_FOREVER) == 0) {
        memcpy(&sum, result->data, sizeof sum);
    }
    weft_buf_free(result);
    weft_route_remove(2);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    weft_node_stats(&stats);
    printf("node %u: %d messages sent, %d received\n", weft_node_id(), (int)stats.sent,
           (int)stats.received);
    return sum != 1 + 4 + 9 || forced || stats.sent != CALLS || stats.received != CALLS;
}

int main(void)
{
    int ends[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) {
        perror("two_nodes: socketpair");
        return 1;
    }
    pid_t child = fork(); /* before Weft starts any thread */
    if (child < 0) {
        perror("two_nodes: fork");
        return 1;
    }
    wire = ends[child == 0];
    close(ends[child != 0]);
    if (child == 0) {
        return run_node_2();
    }
    int failed = run_node_1();
    close(wire);
    waitpid(child, &status, 0);
    if (failed || status != 0) {
        fprintf(stderr, "two_nodes: node %d failed\n", failed ? 1 : 2);
        return 1;
    }
    return 0;
}
