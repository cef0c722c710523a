/* What scenario.c, which reads files and keeps time, and statements.c, which reads lines, have of one another. */
#ifndef THROUGHLINE_STATEMENTS_H
#define THROUGHLINE_STATEMENTS_H

#include <stddef.h>

#include "scenario.h"

extern struct scenario scenario;

/* Reports what is wrong with the line being read, and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void refuse(const char *format, ...);
/* CLOCK_MONOTONIC, nanoseconds. */
int64_t monotonic(void);
/* Copies a word that must fit. */
void copy(char *to, size_t size, const char *from);
/* Reads one line of the file `path`, which it is left changed by. */
void read_line(char *line, const char *path);
/* Reads a file; a missing one that is not required is no error. */
void read_file(const char *path, bool required);

#endif
