/* The lines of a scenario. */
#ifndef THROUGHLINE_STATEMENTS_H
#define THROUGHLINE_STATEMENTS_H

#include <stddef.h>

#include "gpus.h"

/* What was read so far. */
extern struct scenario scenario;

/* Copies a word that must fit. */
void copy(char *to, size_t size, const char *from);
/* Reads one line of the file `path`, which is changed by that; `include` gets the path of a file that it names. */
void read_line(char *line, const char *path, void (*include)(const char *path));

#endif
