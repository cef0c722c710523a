/* What the files of the test double of libnvidia-ml share: codes, and handles to what a scenario has. */
#ifndef THROUGHLINE_NVML_DOUBLE_H
#define THROUGHLINE_NVML_DOUBLE_H

#include "scenario.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	GPU_IS_LOST = 15,
};

bool is_initialised(void);
/* The GPU of a handle, or the code to answer. */
unsigned gpu_of(void *device, const char *call, struct gpu **gpu, int *index);
/* The partition of a handle, or NULL. */
const struct part *part_of(void *device);
void *part_handle(int gpu, int part);

#endif
