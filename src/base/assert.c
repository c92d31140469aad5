#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void weft__panic(const char *file, int line, const char *format, ...)
{
    char text[512];
    int n = snprintf(text, sizeof text, "weft: ");
    va_list args;
    va_start(args, format);
    n += vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    if (n > (int)sizeof text - 64) {
        n = (int)sizeof text - 64;
    }
    n += snprintf(text + n, sizeof text - (size_t)n, " (%s:%d)\n", file, line);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {
        /* stderr is closed: the message is lost. */
    }
    abort();
}
