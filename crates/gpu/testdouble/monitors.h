/* The performance monitors of GPUs where processes share them, as on hardware. */
#ifndef THROUGHLINE_MONITORS_H
#define THROUGHLINE_MONITORS_H

#include <stdbool.h>

/* Takes the monitor of the GPU of this number, less than MAX_GPUS, by a lock in a folder; false where another process has it. */
bool monitor_take(const char *folder, int place);
/* Gives it back. */
void monitor_give(int place);

#endif
