/* What the HELLO frame says about the process itself. See identity.c. */
#ifndef THROUGHLINE_IDENTITY_H
#define THROUGHLINE_IDENTITY_H

#include <stddef.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

void tl_identity_put(struct tl_frame *frame);
/* What all ranks of one job have in common and no other job has; 0 where they have nothing. */
int tl_identity_job(char *text, size_t size);

#pragma GCC visibility pop

#endif
