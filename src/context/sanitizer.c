/* A library that was not compiled for ThreadSanitizer, in a program that was: TSan would see none
 * of the library's synchronisation, and would report every lock of a fiber as a race. The program
 * is stopped with a message before it begins.
 */
#include "context/sanitizer.h"

#if !WEFT__TSAN
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void weft__tsan_init(void) WEFT__WEAK_IMPORT("__tsan_init");

/* Linked into every program that uses the library: context/stack.c refers to it. */
bool weft__san_valgrind;

static __attribute__((constructor)) void refuse_tsan(void)
{
    static const char text[] =
        "weft: this program is built with -fsanitize=thread, but linked with a libweft that is "
        "not: races would be reported where there are none. Link libweft-tsan instead: "
        "cc -fsanitize=thread ... $(pkg-config --cflags --libs weft-tsan), or weft::tsan with "
        "CMake (docs/sanitizers.md)\n";
    if (weft__tsan_init) {
        ssize_t written = write(STDERR_FILENO, text, strlen(text));
        (void)written;
        _exit(EXIT_FAILURE);
    }
}
#else
bool weft__san_valgrind;
#endif
