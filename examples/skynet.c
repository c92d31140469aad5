/* A tree of fibers: every node spawns ten children and adds up their results; a leaf returns its
 * number. usage: skynet [LEAVES], a power of ten */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { CHILDREN = 10 };

struct subtree {
    long first, leaves;
};

static void *sum_up(void *arg)
{
    const struct subtree *tree = arg;
    if (tree->leaves == 1) {
        return (void *)tree->first;
    }
    struct subtree part[CHILDREN];
    weft_fiber child[CHILDREN];
    long sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        part[i].leaves = tree->leaves / CHILDREN;
        part[i].first = tree->first + i * part[i].leaves;
        int err = weft_spawn(&child[i], sum_up, &part[i], NULL);
        if (err) {
            fprintf(stderr, "weft_spawn: %s\n", weft_strerror(err));
            exit(1);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        void *result = NULL;
        weft_join(child[i], &result, WEFT_FOREVER);
        sum += (long)result;
    }
    return (void *)sum;
}

int main(int argc, char **argv)
{
    struct subtree whole = {.leaves = argc > 1 ? atol(argv[1]) : 10000};
    void *sum = NULL;
    int64_t start = weft_now();
    int err = weft_run(&sum, sum_up, &whole, NULL, WEFT_FOREVER);
    if (err) {
        fprintf(stderr, "weft_run: %s\n", weft_strerror(err));
        return 1;
    }
    printf("%ld leaves, sum %ld, %.1f ms\n", whole.leaves, (long)sum,
           (double)(weft_now() - start) / 1e6);
    return (long)sum == whole.leaves * (whole.leaves - 1) / 2 ? 0 : 1;
}
