/* MPI_T performance variables from an allow-list. See pvars.c. */
#ifndef THROUGHLINE_PVARS_H
#define THROUGHLINE_PVARS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* What to read from now on: names separated by commas, a star at the end of one stands for any rest. */
void tl_pvars_choose(const char *names);
/* The list used when nobody names one. */
const char *tl_pvars_standard(void);
/* Reads all chosen variables and sends what changed, or all of it. */
void tl_pvars_push(int everything, int patience_ms);
/* Value of one variable that was chosen, by its number; 0 if it can't be read. */
int tl_pvars_read(int variable, double *value);
/* Before MPI_Finalize, after the flush thread has ended. */
void tl_pvars_stop(void);
uint64_t tl_pvars_missing(void);

#pragma GCC visibility pop

#endif
