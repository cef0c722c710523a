/* Bytes that a status reports. See status.c. */
#ifndef THROUGHLINE_STATUS_H
#define THROUGHLINE_STATUS_H

#include <stdint.h>

#include "form.h"
#include "library.h"

#pragma GCC visibility push(hidden)

enum { TL_STATUS_BYTES = 32 }; /* the largest MPI_Status: that of the MPI-5 ABI */

/* Bytes that a status reports; found out once how a library keeps them. */
void tl_status_learn(void);
int64_t tl_status_bytes(const void *status);

static inline int tl_is_ignored(enum tl_form form, const void *status) {
    if (!tl_is_fortran(form)) return status == tl_library.status_ignore;
    return status == tl_library.fortran_status_ignore || status == tl_library.fortran_statuses_ignore;
}

#pragma GCC visibility pop

#endif
