/* sylar: a child fiber cannot switch to another child; it schedules the other child and the
 * scheduler runs it. In Weft every fiber may spawn and join any other. */
#include <stdio.h>
#include <weft/weft.h>

static void *grandchild(void *arg)
{
    return (char *)arg + 1;
}

static void *child(void *arg)
{
    weft_fiber fiber;
    void *result = NULL;
    if (weft_spawn(&fiber, grandchild, arg, NULL) != 0) {
        return NULL;
    }
    weft_join(fiber, &result, WEFT_FOREVER);
    return (char *)result + 1;
}

int main(void)
{
    char text[] = "..!";
    void *result = NULL;
    int err = weft_run(&result, child, text, NULL, WEFT_FOREVER);
    printf("%s\n", result ? (char *)result : "failed");
    return err == 0 && result == text + 2 ? 0 : 1;
}
