/* Counters that move with time. */
#ifndef THROUGHLINE_COUNTER_H
#define THROUGHLINE_COUNTER_H

#include <stdint.h>

/* A counter that moves with time and with readings. */
struct counter {
	uint64_t base;   /* bytes at `since` */
	uint64_t rate;   /* bytes per second */
	uint64_t step;   /* bytes per reading */
	int64_t since;   /* CLOCK_MONOTONIC nanoseconds */
	uint64_t reads;  /* readings that `step` has been added for */
};

/* The value of a counter at this moment. */
uint64_t counter_value(const struct counter *counter);
/* CLOCK_MONOTONIC, nanoseconds. */
int64_t monotonic(void);

#endif
