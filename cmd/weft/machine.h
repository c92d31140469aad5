/* What this machine and this process have, as the kernel tells it. */
#ifndef WEFT_CMD_MACHINE_H
#define WEFT_CMD_MACHINE_H

#include <stddef.h>

/* Bytes that can be had without swapping: what the kernel says is available, cut by the memory
 * limits of the process's cgroup. 0: unknown. */
double machine_free_bytes(void);

/* Bytes of this process that are in memory now; 0: unknown. */
double machine_resident_bytes(void);

/* "Linux 6.18.44 x86_64" */
void machine_system(char *buf, size_t size);

#endif
