/* What is reported once: see names.c. */
#ifndef THROUGHLINE_NAMES_H
#define THROUGHLINE_NAMES_H

#include <stddef.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

size_t tl_names_count(void);
/* Adds those from number `from` on to a NAMES frame as far as they fit; returns where to go on. */
size_t tl_names_put(struct tl_frame *frame, size_t from);

#pragma GCC visibility pop

#endif
