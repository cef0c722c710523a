/* The metrics of libcupti's test double. */
#ifndef THROUGHLINE_CUPTI_METRICS_H
#define THROUGHLINE_CUPTI_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Units of a GPU that count, as far as metrics of the double need them. */
enum { UNITS = 6 };
extern const char *const CHIPS[];
extern const size_t CHIP_COUNT;
/* Adds the counters that a metric needs; false where the chip has no such metric. */
bool add_counters(const char *chip, const char *name, unsigned counters[UNITS]);
/* How many passes so many counters of each unit take. */
unsigned passes_of(const unsigned counters[UNITS]);
/* The chip's metrics of a type without what may follow their names, and all that may follow one that is given with it. */
unsigned list_metrics(const char *chip, unsigned type, const char ***names, size_t *count);
unsigned list_endings(const char *chip, unsigned type, const char *name, const char ***endings, size_t *count);
/* What a sample of a GPU holds of a metric. */
double value_of(int place, const char *name, uint64_t sample);

#endif
