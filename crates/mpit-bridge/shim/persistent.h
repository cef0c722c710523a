/*
 * Persistent requests: what an operation would account is captured when its request is made, as its datatype
 * and communicator may be gone by the time it is started, and accounted at each start.
 */
#ifndef THROUGHLINE_PERSISTENT_H
#define THROUGHLINE_PERSISTENT_H

#include "library.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

struct tl_looked;
struct tl_capture;

/* From here on, what `call->self` accounts goes into `capture`. */
void tl_capture_begin(struct tl_call *call, struct tl_capture *capture);
/* Ends that, and keeps it for the request that was made. */
void tl_capture_end(struct tl_call *call, struct tl_capture *capture, tl_handle request);

/* MPI_Start and MPI_Startall have started these. */
void tl_persistent_started(struct tl_call *call, struct tl_looked *looked);

#pragma GCC visibility pop

#endif
