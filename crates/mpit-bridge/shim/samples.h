/*
 * Sampled calls: of single calls of blocking collectives, how long this rank was in them. All members of a group choose the
 * same calls, as they count them alike, so that the agents and the server can compare the members' times of one call: who
 * spent the least arrived last, and what others spent beyond it was waiting. No clock of another rank is needed.
 *
 * A call is chosen where its number times a constant, modulo 2^64, is at least the cell's `skip`. A rank that skips more chooses
 * some of those that a rank that skips less does, so that ranks need not agree on it. The multiples of this constant lie
 * evenly, whatever stretch of calls it is, and in step with no period of a program.
 */
#ifndef THROUGHLINE_SAMPLES_H
#define THROUGHLINE_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "comm.h"
#include "groups.h"

#pragma GCC visibility push(hidden)

#define TL_SAMPLE_SPREAD UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio: its multiples are the most even */

enum {
    TL_SAMPLES_A_PUSH = 8,  /* of each cell between two pushes, at most */
    TL_SAMPLES_LIMIT = 512, /* of a process between two pushes; beyond half of it cells skip more at once */
    TL_SAMPLE_LEVELS = 40   /* at most one call of 2^40 */
};

struct tl_sample {
    uint32_t group, generation; /* its place among tl_groups, and what the place held */
    uint16_t level;             /* it stands for 2^level calls */
    uint64_t key, call, ticks;
};

/* The thread that has called; chosen as above. Waits for nobody: what finds no space is left out. */
void tl_sample(const struct tl_comm *comm, struct tl_collective *cell, uint64_t call, uint64_t ticks);

/* Flush thread. A cell has had so many calls since the push before: how many are to be skipped from here on. */
void tl_sample_pace(struct tl_collective *cell, uint32_t calls);
/* Those since the last time, into space for TL_SAMPLES_LIMIT; returns how many. */
size_t tl_samples_take(struct tl_sample *taken);

#pragma GCC visibility pop

#endif
