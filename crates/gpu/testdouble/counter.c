/* Counters that move with time. */
#define _GNU_SOURCE
#include <time.h>

#include "counter.h"

int64_t monotonic(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t counter_value(const struct counter *counter)
{
	/* Whole and fractional seconds apart: a rate times nanoseconds would overflow. */
	uint64_t elapsed = (uint64_t)(monotonic() - counter->since);
	uint64_t seconds = elapsed / 1000000000, rest = elapsed % 1000000000;
	uint64_t moved = counter->rate * seconds + counter->rate / 1000000 * rest / 1000 +
			 counter->rate % 1000000 * rest / 1000000000;
	return counter->base + moved + counter->step * counter->reads;
}
