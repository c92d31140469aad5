/* Every message of the lists in this folder, whole and in pieces. */
#include "proto/list.h"
#include "proto/stream.h"

static struct stream stream;
static struct weft__rand rng;

static int wrong; /* all failures are printed, not only the first */

static void tell(const struct message *m, const char *expected)
{
    printf("%s:%d: expected %d %s, got:\n%s\n", m->file, m->line, m->number, expected,
           stream.text.bytes);
    wrong++;
}

static void is_refused(const struct message *m)
{
    stream_check(&stream, m->bytes, m->len, &rng);
    if (stream.refused != m->number || stream.messages != m->before) {
        tell(m, "as the status, after as many messages as the list says");
    }
}

static void is_accepted(const struct message *m)
{
    stream_check(&stream, m->bytes, m->len, &rng);
    if (stream.refused || stream.messages != m->number) {
        tell(m, "messages");
    }
}

TEST(malformed_requests_are_refused_with_their_status)
{
    weft__rand_seed(&rng, check_seed());
    stream = (struct stream){.response = false};
    CHECK(list_read("malformed.list", is_refused) >= 250);
    CHECK_EQ(wrong, 0);
}

TEST(well_formed_requests_are_accepted)
{
    stream = (struct stream){.response = false};
    CHECK(list_read("wellformed.list", is_accepted) >= 50);
    CHECK_EQ(wrong, 0);
}

TEST(malformed_responses_are_refused)
{
    stream = (struct stream){.response = true, .method = WEFT_HTTP_GET};
    CHECK(list_read("malformed-responses.list", is_refused) >= 30);
    CHECK_EQ(wrong, 0);
}

TEST(well_formed_responses_are_accepted)
{
    stream = (struct stream){.response = true, .method = WEFT_HTTP_GET};
    CHECK(list_read("wellformed-responses.list", is_accepted) >= 15);
    CHECK_EQ(wrong, 0);
}
