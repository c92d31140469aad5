/* A tree of joinable fibers, ten children each, 1,000,000 leaves that return their number; every
 * node returns the sum of its children. usage: skynet WORKERS */
#include "program.h"

enum { CHILDREN = 10, LEAVES = 1000000 };

static const char *workers = "2";

struct subtree {
    long first, leaves;
};

static void *sum_up(void *arg)
{
    const struct subtree *tree = arg;
    if (tree->leaves == 1)
        return (void *)tree->first;
    struct subtree part[CHILDREN];
    weft_fiber child[CHILDREN];
    long sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        part[i].leaves = tree->leaves / CHILDREN;
        part[i].first = tree->first + i * part[i].leaves;
        must(weft_spawn(&child[i], sum_up, &part[i], NULL), "weft_spawn");
    }
    for (int i = 0; i < CHILDREN; i++) {
        void *result;
        must(weft_join(child[i], &result, WEFT_FOREVER), "weft_join");
        sum += (long)result;
    }
    return (void *)sum;
}

static void *measure(void *arg)
{
    struct subtree whole = {0, LEAVES};
    uint64_t start = now_ns();
    if ((long)sum_up(&whole) != (long)LEAVES * (LEAVES - 1) / 2)
        abort();
    report("weft", "skynet", workers, ns_since(start) / 1e6, "ms");
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        workers = argv[1];
    run_main_fiber(workers, measure);
}
