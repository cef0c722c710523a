/* A scenario with a mistake must not pass a test. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "refuse.h"

struct reading reading;

void refuse(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "test double: %s:%d: ", reading.path ? reading.path : "?", reading.line);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_Exit(70);
}
