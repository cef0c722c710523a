/* Counters of GPUs while a scenario is read again. */
#ifndef THROUGHLINE_CARRY_H
#define THROUGHLINE_CARRY_H

#include "gpus.h"

/* Stores what a place has before the scenario is read again. */
void store_counters(int place, const struct gpu *gpu);
/* Gives a GPU whose UUID was read the counters that it had, wherever it was. */
void adopt_counters(struct gpu *gpu);

#endif
