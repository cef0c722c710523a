/* Sizes of datatypes. See types.c. */
#ifndef THROUGHLINE_TYPES_H
#define THROUGHLINE_TYPES_H

#include <stdint.h>

#include "library.h"
#include "limits.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

static inline unsigned tl_type_place(tl_handle type) {
    /* MPICH numbers its own from 0 in the lowest byte, Open MPI's lie 512 bytes apart. */
    return (unsigned)((uint64_t)type ^ (uint64_t)type >> 9) % TL_TYPES_KNOWN;
}
void tl_types_start(void);
/* Bytes of one of `count` elements; of types that stay, it is retained in `self`. 0 without a look at the type where there is no
 * element: a call that uses no type may have any, and a query about it would reach the program's error handler. */
int64_t tl_type_size(struct tl_thread *self, tl_handle type, int64_t count);

#pragma GCC visibility pop

#endif
