/* What the environment sets. See environment.c. */
#ifndef THROUGHLINE_ENVIRONMENT_H
#define THROUGHLINE_ENVIRONMENT_H

#pragma GCC visibility push(hidden)

int tl_switched_off(void); /* THROUGHLINE_SHIM=off */
void tl_debug_on(void);
void tl_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Milliseconds from the environment; 0 if there are none or they make no sense. */
int tl_environment_ms(const char *name);
/* `value` if it is a sensible number of milliseconds, else `standard`. */
int tl_valid_ms(int value, int standard);

#pragma GCC visibility pop

#endif
