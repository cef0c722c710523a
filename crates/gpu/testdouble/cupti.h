/* What the parts of libcupti's test double share. Declarations are our own. */
#ifndef THROUGHLINE_CUPTI_DOUBLE_H
#define THROUGHLINE_CUPTI_DOUBLE_H

#include <stddef.h>

#include "cupti_codes.h"
#include "scenario.h"

#define EXPORT __attribute__((visibility("default")))

/* Pseudo fields of `na GPU * FIELD CODE` for the calls that concern one GPU. */
enum { FIELD_ENABLE = 9001, FIELD_DECODE = 9002, FIELD_LINKS = 9003 };

/* Queried of the double of libcuda, which must be loaded. */
bool cuda_is_initialised(void);
int cuda_context(void);
/* The GPU of a device index, and its place in the scenario. */
struct gpu *device_gpu(size_t device, int *place);
int64_t monotonic_now(void);

#endif
