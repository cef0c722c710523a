/* What the HELLO frame says about the process itself. See identity.c. */
#ifndef THROUGHLINE_IDENTITY_H
#define THROUGHLINE_IDENTITY_H

#include "frame.h"

void tl_identity_put(struct tl_frame *frame) __attribute__((visibility("hidden")));

#endif
