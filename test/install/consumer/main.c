/* Uses the installed library as an outside program does. argv[1] is the expected version. */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

static void *twice(void *arg)
{
    int *n = arg;
    weft_yield();
    *n *= 2;
    return n;
}

static void *first(void *arg)
{
    weft_fiber fiber;
    void *result = NULL;
    if (weft_dump(stdout, NULL) != 0) {
        return NULL;
    }
    if (weft_spawn(&fiber, twice, arg, NULL) != 0 || weft_join(fiber, &result, WEFT_FOREVER) != 0) {
        return NULL;
    }
    return result;
}

int main(int argc, char **argv)
{
    int n = 21;
    void *result = NULL;
    if (argc > 1 && strcmp(argv[1], weft_version()) != 0) {
        fprintf(stderr, "weft %s, expected %s\n", weft_version(), argv[1]);
        return 1;
    }
    int error = weft_run(&result, first, &n, NULL, WEFT_FOREVER);
    if (error != 0 || result != &n || n != 42) {
        fprintf(stderr, "weft_run: %d, n = %d\n", error, n);
        return 1;
    }
    return 0;
}
