/* Handles in arrays of the program. */
#ifndef THROUGHLINE_HANDLES_H
#define THROUGHLINE_HANDLES_H

#include "form.h"
#include "library.h"

#pragma GCC visibility push(hidden)

/* The handle that a wrapper's argument points to, in C or in Fortran. */
static inline tl_handle tl_request_at(enum tl_form form, const void *requests, int i) {
    if (tl_is_fortran(form)) return tl_library.request_f2c(((const int *)requests)[i]);
    return tl_library.handle_bytes == 8 ? ((const tl_handle *)requests)[i] : ((const int *)requests)[i];
}

#pragma GCC visibility pop

#endif
