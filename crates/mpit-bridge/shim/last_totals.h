/* The last totals of this rank in a file, for an agent that was away when it ended. See last.c. */
#ifndef THROUGHLINE_LAST_H
#define THROUGHLINE_LAST_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Makes the file. 1: frames go there until tl_last_end. */
int tl_last_begin(const char *path, int64_t epoch, int rank);
int tl_last_writing(void);
/* Appends one finished frame; 0 if there is no space for it. */
int tl_last_put(struct tl_frame *frame);
void tl_last_end(void);

#pragma GCC visibility pop

#endif
