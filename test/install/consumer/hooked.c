/* A blocking call in an installed program: with the hooks, other fibers run meanwhile. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

static int turns;

static void *other(void *arg)
{
    turns++;
    return arg;
}

static void *first(void *arg)
{
    weft_spawn(NULL, other, NULL, NULL);
    usleep(1000);
    return turns == 1 && weft_hook_is_active() ? arg : NULL;
}

int main(int argc, char **argv)
{
    void *right = NULL;
    int err = weft_run(&right, first, &turns, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER);
    if (err || !right || argc < 2 || strcmp(argv[1], weft_version()) != 0) {
        fprintf(stderr, "the hooks do not work\n");
        return 1;
    }
    return 0;
}
