/* A hundred fibers square a number each; the first fiber adds up what they return. */
#include <stdio.h>
#include <weft/weft.h>

static void *square(void *n)
{
    return (void *)((long)n * (long)n);
}

static void *add_squares(void *sum)
{
    weft_fiber fiber[100] = {0};
    for (long i = 0; i < 100; i++)
        weft_spawn(&fiber[i], square, (void *)i, NULL);
    for (int i = 0; i < 100; i++) {
        void *result = NULL;
        weft_join(fiber[i], &result, WEFT_FOREVER);
        *(long *)sum += (long)result;
    }
    return sum;
}

int main(void)
{
    long sum = 0;
    int err = weft_run(NULL, add_squares, &sum, NULL, WEFT_FOREVER);
    printf("0 + 1 + 4 + ... + 9801 = %ld\n", sum);
    return err || sum != 328350;
}
