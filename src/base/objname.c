#include "base/objname.h"

#include "base/alloc.h"

char *weft__objname_copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = weft__alloc_packed(bytes);
    if (copy) {
        memcpy(copy, text, bytes);
    }
    return copy;
}
