/* Three groups elect a leader on one dispatcher, over a network that loses messages.
 *
 * Each node is a group with one frame fiber, which waits only for messages, never for the clock:
 * time is a message too. The network is a fourth group. It stores sent messages, loses some and
 * delays the others, driven by a seeded generator, and advances the tick when all nodes have
 * processed the last one. So the result does not depend on the speed of the machine, and the seed
 * determines everything: the leader, the time of its election, and the hash over all events. To use
 * your own seeds: election 1 2 3.
 *
 * When a leader has been followed for a while, its group is stopped, as if the node had died, and
 * the others elect the next leader. Checked: never two leaders in one term, always a leader in the
 * end, and the same hash for the same seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { NODES = 3, MOST_TICKS = 5000, IN_FLIGHT = 256, LOSS_PERCENT = 25, MOST_TERMS = 4096 };

enum kind { TICK, ASK, VOTE, ALIVE };

struct message {
    enum kind kind;
    int from, to, term;
    int due; /* the tick at which it arrives */
};

enum role { FOLLOWER, CANDIDATE, LEADER };

struct world;

struct node {
    weft_frame frame;
    struct weft_wait wait;
    struct message got;
    struct world *world;
    weft_group *group;
    weft_chan *inbox;
    uint64_t rand;
    int id, term, voted_in, votes, election_timeout, beat;
    enum role role;
};

struct world {
    struct node nodes[NODES];
    weft_chan *network; /* messages from nodes; TICK: node finished its tick */
    struct message flying[IN_FLIGHT];
    int flights, tick, sent, lost;
    uint64_t rand, hash;
    int leader_of[MOST_TERMS]; /* plus one */
    int leader, led_since, elections;
    bool broken;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13; /* xorshift64 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

/* Adds the event, its time and its node to the hash (FNV-1a). */
static void happened(struct world *world, const char *what, int node, int term)
{
    int numbers[] = {world->tick, node, term};
    unsigned char bytes[sizeof numbers];
    memcpy(bytes, numbers, sizeof numbers);
    for (; *what; what++) {
        world->hash = (world->hash ^ (unsigned char)*what) * UINT64_C(1099511628211);
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        world->hash = (world->hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
}

/* --- a node ------------------------------------------------------------------------------- */

static void tell(struct node *node, enum kind kind, int to)
{
    struct message message = {.kind = kind, .from = node->id, .to = to, .term = node->term};
    weft_chan_send(node->world->network, &message, 0); /* capacity for all */
}

static void tell_all(struct node *node, enum kind kind)
{
    for (int i = 0; i < NODES; i++) {
        if (i != node->id) {
            tell(node, kind, i);
        }
    }
}

static void be_patient(struct node *node)
{
    node->election_timeout = 10 + (int)draw(&node->rand, 15);
}

static void lead(struct node *node)
{
    struct world *world = node->world;
    int *leader = &world->leader_of[node->term % MOST_TERMS];
    world->broken |= *leader != 0; /* two leaders in one term are a failure */
    *leader = node->id + 1;
    node->role = LEADER;
    world->leader = node->id;
    world->led_since = world->tick;
    happened(world, "leads", node->id, node->term);
    tell_all(node, ALIVE);
}

static void on_tick(struct node *node)
{
    if (node->role == LEADER) {
        if (++node->beat % 3 == 0) {
            tell_all(node, ALIVE);
        }
    } else if (--node->election_timeout <= 0) {
        node->role = CANDIDATE;
        node->voted_in = ++node->term;
        node->votes = 1; /* its own vote */
        be_patient(node);
        happened(node->world, "asks", node->id, node->term);
        tell_all(node, ASK);
    }
    tell(node, TICK, -1);
}

static void on_message(struct node *node, const struct message *m)
{
    happened(node->world, "gets", node->id, m->term);
    if (m->term > node->term) {
        node->term = m->term;
        node->role = FOLLOWER;
    }
    if (m->term < node->term) {
        return; /* from an earlier term */
    }
    if (m->kind == ASK && node->voted_in < node->term) {
        node->voted_in = node->term;
        be_patient(node);
        happened(node->world, "votes", node->id, node->term);
        tell(node, VOTE, m->from);
    } else if (m->kind == VOTE && node->role == CANDIDATE && ++node->votes > NODES / 2) {
        lead(node);
    } else if (m->kind == ALIVE) {
        node->role = FOLLOWER;
        be_patient(node);
    }
}

static enum weft_step node_received(weft_frame *f, struct weft_got got);

static enum weft_step node_receive(weft_frame *f, struct weft_got got)
{
    struct node *self = (struct node *)f;
    (void)got;
    return weft_frame_await_recv(f, &self->wait, self->inbox, &self->got, WEFT_FOREVER,
                                 WEFT_THEN(node_received));
}

static enum weft_step node_received(weft_frame *f, struct weft_got got)
{
    struct node *self = (struct node *)f;
    if (got.status) { /* closed: the node is dead */
        return weft_frame_return(f, NULL);
    }
    if (self->got.kind == TICK) {
        on_tick(self);
    } else {
        on_message(self, &self->got);
    }
    return weft_frame_continue(f, NULL, WEFT_THEN(node_receive));
}

static const struct weft_frame_kind node_kind = {.name = "node", .start = node_receive};

/* --- the network: a fiber with a stack, in its own group -------------------------------------- */

static bool lives(const struct node *node)
{
    return !weft_chan_is_closed(node->inbox);
}

static void kill_node(struct world *world, int id)
{
    happened(world, "dies", id, world->nodes[id].term);
    weft_chan_close(world->nodes[id].inbox);
    weft_group_stop(world->nodes[id].group);
    world->leader = -1;
}

static void fly(struct world *world, struct message m)
{
    world->sent++;
    if (draw(&world->rand, 100) < LOSS_PERCENT || world->flights == IN_FLIGHT) {
        world->lost++;
        happened(world, "lost", m.to, m.term);
        return;
    }
    m.due = world->tick + 1 + (int)draw(&world->rand, 4);
    world->flying[world->flights++] = m;
}

static void deliver(struct world *world)
{
    int left = 0;
    for (int i = 0; i < world->flights; i++) {
        struct message m = world->flying[i];
        if (m.due > world->tick) {
            world->flying[left++] = m;
        } else if (lives(&world->nodes[m.to])) {
            weft_chan_send(world->nodes[m.to].inbox, &m, WEFT_FOREVER);
        }
    }
    world->flights = left;
}

/* One tick of the clock: due messages arrive, and every node may act. */
static void pass_tick(struct world *world)
{
    struct message tick = {.kind = TICK}, m;
    int awaited = 0;
    world->tick++;
    deliver(world);
    for (int i = 0; i < NODES; i++) {
        if (lives(&world->nodes[i])) {
            weft_chan_send(world->nodes[i].inbox, &tick, WEFT_FOREVER);
            awaited++;
        }
    }
    while (awaited > 0 && weft_chan_recv(world->network, &m, WEFT_FOREVER) == 0) {
        if (m.kind == TICK) {
            awaited--;
        } else {
            fly(world, m);
        }
    }
}

static bool is_led(const struct world *world)
{
    return world->leader >= 0 && world->nodes[world->leader].role == LEADER;
}

/* Runs until two leaders have been elected, one after the death of the other. */
static void *run_network(void *arg)
{
    struct world *world = arg;
    while (world->tick < MOST_TICKS && world->elections < 2) {
        pass_tick(world);
        if (is_led(world) && world->tick - world->led_since > 50) {
            world->elections++;
            printf("  tick %4d: node %d leads in term %d\n", world->led_since, world->leader,
                   world->nodes[world->leader].term);
            kill_node(world, world->leader);
        }
    }
    for (int i = 0; i < NODES; i++) {
        if (lives(&world->nodes[i])) {
            kill_node(world, i);
        }
    }
    return NULL;
}

/* --- the whole election ----------------------------------------------------------------------- */

static int node_start(struct node *node, struct world *world, weft_dispatcher *d, uint64_t seed)
{
    static const char *const names[NODES] = {"north", "east", "west"};
    struct weft_chan_opts inbox = {.name = "inbox", .capacity = IN_FLIGHT};
    node->world = world;
    node->id = (int)(node - world->nodes);
    node->rand = seed * 31 + (uint64_t)node->id + 1;
    be_patient(node);
    weft_frame_init(&node->frame, &node_kind);
    int err =
        weft_group_create(d, &node->group, &(struct weft_group_opts){.name = names[node->id]});
    err = err ? err : weft_chan_create(&node->inbox, sizeof(struct message), &inbox);
    return err ? err : weft_group_spawn_frame(node->group, NULL, &node->frame, NULL);
}

/* Returns the hash of all events; 0: the election failed. */
static uint64_t elect(uint64_t seed)
{
    static struct world world;
    weft_dispatcher *d;
    weft_group *network;
    struct weft_chan_opts wire = {.name = "wire", .capacity = IN_FLIGHT};
    world =
        (struct world){.rand = seed * 2654435761 + 1, .hash = 14695981039346656037u, .leader = -1};
    if (weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_chan_create(&world.network, sizeof(struct message), &wire) ||
        weft_group_create(d, &network, &(struct weft_group_opts){.name = "network"}) ||
        weft_group_spawn(network, NULL, run_network, &world, NULL)) {
        return 0;
    }
    for (int i = 0; i < NODES; i++) {
        if (node_start(&world.nodes[i], &world, d, seed)) {
            return 0;
        }
    }
    weft_group_stop(network);
    int err = weft_dispatcher_run(d);
    weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(d);
    for (int i = 0; i < NODES; i++) {
        weft_chan_destroy(world.nodes[i].inbox);
    }
    weft_chan_destroy(world.network);
    printf("  seed %" PRIu64 ": %d ticks, %d of %d messages lost, hash %016" PRIx64 "\n", seed,
           world.tick, world.lost, world.sent, world.hash);
    return err || world.broken || world.elections < 2 ? 0 : world.hash;
}

int main(int argc, char **argv)
{
    bool ok = true;
    if (argc > 1) {
        for (int i = 1; i < argc; i++) {
            ok &= elect(strtoull(argv[i], NULL, 10)) != 0;
        }
        return ok ? 0 : 1;
    }
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t hash = elect(seed);
        ok &= hash != 0 && hash == elect(seed);
    }
    puts(ok ? "every seed has its leaders, and one hash" : "failed");
    return ok ? 0 : 1;
}
