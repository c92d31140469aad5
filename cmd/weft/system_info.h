/* Facts about this machine and this process, as the kernel reports them. */
#ifndef WEFT_WEFT_SYSTEM_INFO_H
#define WEFT_WEFT_SYSTEM_INFO_H

#include <stddef.h>

/* Returns the memory available without swapping: what the kernel reports, reduced by the memory
 * limits of the process's cgroup. 0: unknown. */
double system_free_bytes(void);

/* Returns the resident memory of this process; 0: unknown. */
double system_resident_bytes(void);

/* Writes a text such as "Linux 6.18.44 x86_64". */
void system_name(char *buf, size_t size);

#endif
