/* A chat room: one actor holds the member list, and each member is an actor. The room opens when
 * all members have joined. Each member greets the others and leaves when all of them have greeted.
 * The room monitors every member, so a member that exits is removed automatically. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { MEMBERS = 3 };

/* --- the room --------------------------------------------------------------------------- */

struct member {
    weft_pid pid;
    uint64_t ref;
};

struct room {
    struct member members[MEMBERS];
    size_t count;
};

static void enter(weft_actor *self, struct room *room, weft_pid pid)
{
    struct member *member = &room->members[room->count];
    if (room->count < MEMBERS && weft_actor_monitor(self, &member->ref, pid) == 0) {
        member->pid = pid;
        room->count++;
    }
}

static void leave(struct room *room, uint64_t ref)
{
    for (size_t i = 0; i < room->count; i++) {
        if (room->members[i].ref == ref) {
            room->members[i] = room->members[--room->count];
        }
    }
}

/* Each member gets a view of the same bytes. */
static void tell_all(const struct room *room, weft_pid from, const char *topic,
                     const weft_buf *words)
{
    for (size_t i = 0; i < room->count; i++) {
        if (!weft_pid_equal(room->members[i].pid, from)) {
            weft_actor_send(room->members[i].pid, topic, 0, words ? weft_buf_share(words) : NULL,
                            WEFT_BY_POLICY);
        }
    }
}

static int run_room(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    struct room *room = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        const struct weft_actor_event *e = &events[i];
        if (e->kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (e->kind == WEFT_EVENT_DOWN) {
            leave(room, e->tag);
            if (room->count == 0) { /* the last member has left */
                weft_out_done(out, NULL);
            }
        } else if (e->kind == WEFT_EVENT_MESSAGE && strcmp(e->topic, "enter") == 0) {
            enter(self, room, e->from);
            if (room->count == MEMBERS) {
                tell_all(room, (weft_pid){0}, "open", NULL);
            }
        } else if (e->kind == WEFT_EVENT_MESSAGE && strcmp(e->topic, "say") == 0) {
            tell_all(room, e->from, "heard", e->buf);
        }
    }
    return 0;
}

static const struct weft_actor_kind room_kind = {
    .name = "room", .state_bytes = sizeof(struct room), .step = run_room};

/* --- a member ----------------------------------------------------------------------------- */

struct person {
    weft_pid room;
    char name[16];
    int heard;
};

static int come(weft_actor *self, const char *method, const weft_buf *input)
{
    struct person *person = weft_actor_state(self);
    memcpy(&person->room, input->data, sizeof person->room);
    snprintf(person->name, sizeof person->name, "%s", method);
    return 0;
}

static void greet(const struct person *person)
{
    char words[64];
    int n = snprintf(words, sizeof words, "hello, I am %s", person->name);
    weft_actor_send(person->room, "say", 0, weft_buf_copy(words, (size_t)n + 1), WEFT_BY_POLICY);
}

/* Returns true if that was the last member. */
static bool hear(struct person *person, const weft_buf *words)
{
    printf("%s hears: %s\n", person->name, words ? (const char *)words->data : "nothing");
    return ++person->heard == MEMBERS - 1;
}

static int run_person(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    struct person *person = weft_actor_state(self);
    weft_out_idle(out);
    if (n == 0) { /* the first step */
        return weft_actor_send(person->room, "enter", 0, NULL, WEFT_BY_POLICY);
    }
    for (size_t i = 0; i < n; i++) {
        const struct weft_actor_event *e = &events[i];
        if (e->kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (strcmp(e->topic, "open") == 0) {
            greet(person);
        } else if (strcmp(e->topic, "heard") == 0 && hear(person, e->buf)) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind person_kind = {
    .name = "person", .state_bytes = sizeof(struct person), .init = come, .step = run_person};

static int start(weft_host *host, weft_pid *room)
{
    static const char *const names[MEMBERS] = {"ada", "bo", "cy"};
    int err = weft_actor_spawn(host, room, &room_kind, NULL, NULL);
    weft_buf *where = weft_buf_copy(room, sizeof *room);
    for (int i = 0; i < MEMBERS && !err; i++) {
        err = where ? weft_actor_spawn(host, NULL, &person_kind, names[i], where) : -ENOMEM;
    }
    weft_buf_free(where);
    return err;
}

int main(void)
{
    weft_host *host;
    weft_pid room;
    int err = weft_host_create(&host, NULL);
    if (err || (err = start(host, &room))) {
        fprintf(stderr, "chatroom: %s\n", weft_strerror(err));
        return 1;
    }
    err = weft_actor_join(room, NULL, WEFT_FOREVER); /* the room ends when all members have left */
    printf("the room is %s\n", err == 0 || err == -ESRCH ? "empty" : weft_strerror(err));
    int left = weft_host_stop(host, NULL, WEFT_FOREVER);
    weft_host_destroy(host);
    return (err != 0 && err != -ESRCH) || left;
}
