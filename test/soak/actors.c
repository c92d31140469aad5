/* A large population of actors (test/stress/actor/population.h), for minutes; `make soak` runs it
 * with a million.
 *
 * usage: actors [-n ACTORS] [-s SECONDS] [-r ROUNDS]
 *
 * Each round is a separate population, which ends with the round. The process must then have as
 * much memory allocated as after the first round. */
#include <malloc.h>

#define CHECK_OWN_MAIN
#include "buf/bufs.h"
#include "stress/actor/population.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

enum { SLACK = 1 << 20 }; /* bytes: for caches that fill by chance */

/* Allocated bytes; with a sanitizer, which has its own allocator and reports leaks itself, 0. */
static size_t in_use(void)
{
#ifdef SANITIZED
    return 0;
#else
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}

static long number_of(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (n < 1 || *end) {
        fprintf(stderr, "actors: not a number above 0: %s\n", text);
        exit(2);
    }
    return n;
}

static size_t run_once(long actors, double seconds)
{
    society_run(&(struct society_opts){.population = actors,
                                       .shown = actors / 2 + 1,
                                       .keepers = actors / 100 + 1,
                                       .children = actors / 10 + 1,
                                       .seconds = seconds});
    weft__buf_trim_pools();
    return in_use();
}

int main(int argc, char **argv)
{
    long actors = 100000, seconds = 60, rounds = 2;
    int option;
    while ((option = getopt(argc, argv, "n:s:r:")) >= 0) {
        switch (option) {
        case 'n':
            actors = number_of(optarg);
            break;
        case 's':
            seconds = number_of(optarg);
            break;
        case 'r':
            rounds = number_of(optarg);
            break;
        default:
            return 2;
        }
    }
    size_t first = 0;
    for (long i = 0; i < rounds; i++) {
        size_t bytes = run_once(actors, (double)seconds / (double)rounds);
        printf("round %ld of %ld: %zu bytes in use\n", i + 1, rounds, bytes);
        first = i == 0 ? bytes : first;
        CHECK(bytes <= first + SLACK);
    }
    printf("actors: nothing lost, nothing left\n");
    return 0;
}
