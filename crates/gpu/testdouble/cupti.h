/* What the parts of libcupti's test double share. Declarations are our own. */
#ifndef THROUGHLINE_CUPTI_DOUBLE_H
#define THROUGHLINE_CUPTI_DOUBLE_H

#include <stddef.h>

#include "scenario.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	OK = 0,
	INVALID_PARAMETER = 1,
	INVALID_DEVICE = 2,
	INVALID_CONTEXT = 3,
	INVALID_OPERATION = 7,
	NOT_INITIALIZED = 15,
	INVALID_METRIC_NAME = 17,
	HARDWARE_BUSY = 26,
	NOT_SUPPORTED = 27,
	UNKNOWN = 999,
};

/* Pseudo fields of `na GPU * FIELD CODE` for the calls that concern one GPU. */
enum { FIELD_ENABLE = 9001, FIELD_DECODE = 9002, FIELD_LINKS = 9003 };

/* Queried of the double of libcuda, which must be loaded. */
bool cuda_is_initialised(void);
int cuda_context(void);
/* The GPU of a device index, and its place in the scenario. */
struct gpu *device_gpu(size_t device, int *place);
int64_t monotonic_now(void);

/* Units of a GPU that count, as far as metrics of the double need them. */
enum { UNITS = 6 };
extern const char *const CHIPS[];
extern const size_t CHIP_COUNT;
/* Adds the counters that a metric needs; false where the chip has no such metric. */
bool add_counters(const char *chip, const char *name, unsigned counters[UNITS]);
/* How many passes so many counters of each unit take. */
unsigned passes_of(const unsigned counters[UNITS]);
/* The chip's metrics of a type without what may follow their names, and what may follow one. */
unsigned list_metrics(const char *chip, unsigned type, const char ***names, size_t *count);
unsigned list_endings(const char *chip, unsigned type, const char *name, const char ***endings, size_t *count);
/* What a sample of a GPU holds of a metric. */
double value_of(int place, const char *name, uint64_t sample);

#endif
