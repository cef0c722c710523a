/* Communicators and windows, translated. See comms.c. */
#ifndef THROUGHLINE_COMMS_H
#define THROUGHLINE_COMMS_H

#include "comm.h"
#include "library.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

extern int tl_shared_comms; /* several threads may use one communicator: its sums need atomic additions */
/* `group`: that of the world; retained until tl_comms_stop. */
int tl_comms_start(tl_handle group);
void tl_comms_stop(void);
struct tl_comm *tl_comm_find(struct tl_thread *self, tl_handle handle);
/* The group of a window: the same table has it. */
struct tl_comm *tl_window_find(struct tl_thread *self, tl_handle handle);
/* As tl_comm_find, where an array of the program is to be read by the size: that is queried once more. A communicator may
 * have been freed where the shim could not see it, and another one have its handle. */
struct tl_comm *tl_comm_find_now(struct tl_thread *self, tl_handle handle);
/* The same for its neighbours. NULL: not known. */
struct tl_comm *tl_comm_find_with_neighbours(struct tl_thread *self, tl_handle handle);
void tl_comm_evict(tl_handle handle);
/* Around the call that frees one. The library may give the handle to another thread's next communicator at once. */
struct tl_leaving tl_comm_leave(tl_handle handle, struct tl_frame_mark frame);
void tl_comm_left(struct tl_leaving before);

/* comms.c: the communicator of a handle, if it has been translated. Call with the lock held. */
const struct tl_comm *tl_comm_known(tl_handle handle);

#pragma GCC visibility pop

#endif
