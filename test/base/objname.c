/* Names of any length: how they are truncated where there is little space. */
/* labels: valgrind */
#include "base/objname.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "check.h"

static const char *cut(const char *text, size_t room)
{
    static char kept[64];
    memset(kept, '#', sizeof kept);
    weft__objname_truncate(kept, room, text);
    CHECK_EQ(kept[room], '#');
    return kept;
}

TEST(name_is_truncated_to_buffer)
{
    CHECK_STR(cut("", 1), "");
    CHECK_STR(cut("abc", 1), "");
    CHECK_STR(cut("abc", 3), "ab");
    CHECK_STR(cut("abc", 4), "abc");
    CHECK_STR(cut("abc", 20), "abc");
}

TEST(multibyte_character_is_kept_whole_or_dropped)
{
    static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\xa7\xb5z"; /* of 1 to 4 bytes */
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t room = 1; room <= sizeof text; room++) {
        CHECK_EQ(weft__objname_fit(text, room), whole[room - 1]);
    }
}

TEST(invalid_utf8_is_truncated_bytewise)
{
    CHECK_EQ(weft__objname_fit("\x80\x80\x80\x80\x80\x80\x80\x80", 7), 6);
    CHECK_EQ(weft__objname_fit("abc\x80\x80\x80\x80\x80\x80", 7), 6);
    CHECK_EQ(weft__objname_fit("\x80\x80", 2), 1);
}

TEST(name_copy_is_complete)
{
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    char *copy = weft__objname_copy(text);
    CHECK_STR(copy, text);
    weft__free(copy);
    weft__alloc_fail_after(1, false);
    CHECK(!weft__objname_copy("any"));
    weft__alloc_fail_after(0, false);
}

static const char *thread_name(const char *pool, unsigned index)
{
    static char name[16];
    weft__thread_set_name(pthread_self(), pool, index);
    CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    return name;
}

TEST(thread_name_truncation_keeps_numbers)
{
    CHECK_STR(thread_name("pool", 3), "pool_3");
    CHECK_STR(thread_name("", 3), "_3");
    CHECK_STR(thread_name("my-dispatcher", 0), "my-dispatcher_0");
    CHECK_STR(thread_name("my-dispatcher", 11), "my-dispatche_11");
    CHECK_STR(thread_name("my-dispatcher", 1023), "my-dispatc_1023");
    CHECK_STR(thread_name("image-compression12", 0), "image-compr12_0");
    CHECK_STR(thread_name("image-compression", 0), "image-compres_0");
    CHECK_STR(thread_name("1234567890123456789", 1023), "1234566789_1023");
}
