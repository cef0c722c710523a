/* Which GPUs the process may use, and which device files of GPUs it has open. See devices.c. */
#ifndef THROUGHLINE_DEVICES_H
#define THROUGHLINE_DEVICES_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* On the thread that called MPI_Init: what the environment says. */
void tl_devices_configure(void);
/* On the flush thread, at each push: looks now and then, and reports what this connection does not know yet. */
void tl_devices_push(struct tl_frame *frame, uint64_t pushes, int last, int (*patience)(void));

#pragma GCC visibility pop

#endif
