/* Algorithms of collectives as performance variables prove them. See pvar_algorithms.c. Flush thread only. */
#ifndef THROUGHLINE_PVAR_ALGORITHMS_H
#define THROUGHLINE_PVAR_ALGORITHMS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A variable has been chosen (pvars.c); its number there is `variable`. All are dropped with another list. */
void tl_pvar_algorithms_learn(int variable, const char *name);
void tl_pvar_algorithms_evict(void);
/* Are there any: is each bin to be held against them? */
int tl_pvar_algorithms_known(void);

/* Around the summing up of a bin: whether it is of one moment. */
typedef int tl_pvar_read(int variable, double *value); /* tl_pvars_read */
void tl_pvar_algorithms_before(tl_pvar_read *read);
void tl_pvar_algorithms_after(tl_pvar_read *read);

/* Number of the algorithm by which all calls of this bin went, 0 if that is not proven. */
uint16_t tl_pvar_algorithm(int operation, uint64_t (*calls)(int operation));

#pragma GCC visibility pop

#endif
