/* Where a mistake of a scenario is reported. */
#ifndef THROUGHLINE_REFUSE_H
#define THROUGHLINE_REFUSE_H

/* The line that is being read. */
extern struct reading {
	const char *path;
	int line;
} reading;

/* Reports what is wrong with it, and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void refuse(const char *format, ...);

#endif
