/* What the caller would have called without the shim. See caller_library.c. */
#ifndef THROUGHLINE_CALLER_LIBRARY_H
#define THROUGHLINE_CALLER_LIBRARY_H

#include <stddef.h>

#include "form.h"
#include "operations.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

extern void *tl_next_functions[TL_FORM_COUNT][TL_OPERATION_LIMIT];
void *tl_next_find(enum tl_form form, int operation, const void *caller);
#define TL_CALLER __builtin_return_address(0) /* only in a wrapper itself */
extern int tl_several_libraries;
void tl_caller_library_check(void); /* at each MPI_Init: is it another library's? */
void *tl_find_for(const char *symbol, const void *caller);

/* What the program would have called without the shim; NULL where there is none. */
#define tl_next(form, operation) tl_next_for((form), (operation), TL_CALLER)
static inline void *tl_next_for(enum tl_form form, int operation, const void *caller) {
    void *found = __atomic_load_n(&tl_next_functions[form][operation], __ATOMIC_ACQUIRE);
    return TL_LIKELY(found != NULL) ? found : tl_next_find(form, operation, caller);
}

#pragma GCC visibility pop

#endif
