/* NVTX ranges as regions. See nvtx.c. */
#ifndef THROUGHLINE_NVTX_H
#define THROUGHLINE_NVTX_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The owner of ranges in the default domain. */
enum { TL_NVTX_DEFAULT = 2 };
/* The thread is inside of a function of NVTX 2's library that annotations.c has recorded: the library may call here, too. */
extern __thread int tl_nvtx_inside __attribute__((tls_model("initial-exec")));
/* Names this object as the tool of NVTX 3, unless the program's user has named one. */
void tl_nvtx_offer(void);

#pragma GCC visibility pop

#endif
