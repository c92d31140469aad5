/* A call chain as deep as a stack trace must show; the includer defines DEPTH. */
#ifndef WEFT_TEST_CONTEXT_DEEP_H
#define WEFT_TEST_CONTEXT_DEEP_H

__attribute__((noinline)) static long deeper(int depth, long (*innermost)(void))
{
    long result = depth > 1 ? deeper(depth - 1, innermost) : innermost();
    __asm__ volatile("" : "+r"(result));
    return result;
}

/* `innermost`: receives the address of the innermost frame. */
__attribute__((noinline)) static void *call_deep(void *innermost)
{
    long result = deeper(DEPTH, *(long (**)(void))innermost);
    __asm__ volatile("" : "+r"(result));
    return (void *)result;
}

#endif
