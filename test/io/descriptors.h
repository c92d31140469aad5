/* How many descriptors this process has, and one for the look itself. */
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
