/* See memory.c. */
#ifndef THROUGHLINE_MEMORY_H
#define THROUGHLINE_MEMORY_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Zeroed and aligned to cache lines, so that two threads never write to one; NULL when there is none */
void *tl_memory(size_t size);

#pragma GCC visibility pop

#endif
