/* The form of a wrapper: its language, and the width of its counts. */
#ifndef THROUGHLINE_FORM_H
#define THROUGHLINE_FORM_H

#pragma GCC visibility push(hidden)

/* Which form a wrapper has; decides how arrays of counts and of handles are read. The last three are those of MPICH's
 * mpi_f08 where there is a buffer, which comes as a descriptor (wrappers_fortran.c). */
enum tl_form {
    TL_FORM_C,
    TL_FORM_LARGE,
    TL_FORM_FORTRAN,
    TL_FORM_F08,
    TL_FORM_F08TS,
    TL_FORM_F08TS_LARGE,
    TL_FORM_F08TS_C, /* the same by another name */
    TL_FORM_COUNT
};

static inline int tl_is_fortran(enum tl_form form) {
    return form >= TL_FORM_FORTRAN;
}
/* Counts in arrays have 64 bits. */
static inline int tl_is_large(enum tl_form form) {
    return form == TL_FORM_LARGE || form >= TL_FORM_F08TS_LARGE;
}

#pragma GCC visibility pop

#endif
