/* Facts about this machine and this process, as the kernel reports them. */
#ifndef WEFT_CMD_MACHINE_H
#define WEFT_CMD_MACHINE_H

#include <stddef.h>

/* Returns the memory available without swapping: what the kernel reports, reduced by the memory
 * limits of the process's cgroup. 0: unknown. */
double machine_free_bytes(void);

/* Returns the resident memory of this process; 0: unknown. */
double machine_resident_bytes(void);

/* Writes a text such as "Linux 6.18.44 x86_64". */
void machine_system(char *buf, size_t size);

#endif
