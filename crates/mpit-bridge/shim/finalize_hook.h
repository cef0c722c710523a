/* See finalize_hook.c. */
#ifndef THROUGHLINE_FINALIZE_HOOK_H
#define THROUGHLINE_FINALIZE_HOOK_H

#pragma GCC visibility push(hidden)

/* `finalizing` is called when MPI_Finalize begins, even if the wrapper of that name is not called. */
void tl_finalize_hook_register(void (*finalizing)(void));

#pragma GCC visibility pop

#endif
