/* A plugin that uses Weft: fibers, a timed wait, and a thread for blocking functions. */
#include <weft/weft.h>

int plugin_run(void);

static void *block(void *arg)
{
    return arg;
}

static void *first(void *arg)
{
    void *result = NULL;
    if (weft_sleep(weft_after(1000)) != 0 ||
        weft_blocking_call(NULL, &result, block, arg, WEFT_FOREVER) != 0) {
        return NULL;
    }
    return result;
}

int plugin_run(void)
{
    int mark;
    void *result = NULL;
    return weft_run(&result, first, &mark, NULL, WEFT_FOREVER) == 0 && result == &mark ? 42 : -1;
}
