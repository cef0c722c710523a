/* Functions that this object has and the MPI library lacks. See absent.c. */
#ifndef THROUGHLINE_ABSENT_H
#define THROUGHLINE_ABSENT_H

#pragma GCC visibility push(hidden)

/* Before MPI starts. */
void tl_absent_unbind(void);

#pragma GCC visibility pop

#endif
