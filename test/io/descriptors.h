/* The number of open descriptors of this process, including the one used for counting. */
#ifndef WEFT_TEST_IO_DESCRIPTORS_H
#define WEFT_TEST_IO_DESCRIPTORS_H

#include <dirent.h>

#include "check.h"

__attribute__((unused)) static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

#endif
