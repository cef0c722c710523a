/* Control variables that decide algorithms. See settings.c. */
#ifndef THROUGHLINE_SETTINGS_H
#define THROUGHLINE_SETTINGS_H

#pragma GCC visibility push(hidden)

/* Once, after MPI_Init, on the thread that called it. */
void tl_settings_read(void);

#pragma GCC visibility pop

#endif
