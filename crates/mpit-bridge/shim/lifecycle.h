/* Beginning and end of MPI in this process. See lifecycle.c. */
#ifndef THROUGHLINE_LIFECYCLE_H
#define THROUGHLINE_LIFECYCLE_H

#include "library.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

/* MPI is about to start. */
void tl_starting(void);
/* MPI_Init has succeeded; MPI_Finalize is about to be called, and has returned */
void tl_started(void);
void tl_finishing(struct tl_frame_mark wrapper);
void tl_finished(void);
/* MPI_Finalize has been called past the wrapper: nobody will see it return. */
void tl_finishing_unseen(void);
/* The same for a session. */
void tl_session_started(tl_handle session);
void tl_session_finishing(void);
extern int tl_noticed;    /* MPI_Init came here, or a session */

#pragma GCC visibility pop

#endif
