/* What is reported once: see names.c. */
#ifndef THROUGHLINE_NAMES_H
#define THROUGHLINE_NAMES_H

#include <stdint.h>
#include <stddef.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

size_t tl_names_count(void);
/* Adds those from number `from` on to a NAMES frame as far as they fit; returns where to go on. */
size_t tl_names_put(struct tl_frame *frame, size_t from);

/* What is reported once. `text` is copied. 0 where there is no more space. */
enum tl_name_kind { TL_NAME_REGION = 1, TL_NAME_ALGORITHM = 2, TL_NAME_COMM = 3, TL_NAME_SETTING = 4, TL_NAME_PATH = 5 };
int tl_name_add(enum tl_name_kind kind, uint32_t number, uint32_t size, uint32_t place, const char *text);

#pragma GCC visibility pop

#endif
