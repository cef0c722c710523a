/*
 * What the environment sets, and the messages that THROUGHLINE_DEBUG requests.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"

static int debugging;

void tl_debug_on(void) {
    debugging = 1;
}

void tl_debug(const char *format, ...) {
    if (!debugging) return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "throughline[%d]: %s\n", (int)getpid(), text);
}

int tl_valid_ms(int value, int standard) {
    enum { SHORTEST_MS = 10, LONGEST_MS = 60000 };
    return value >= SHORTEST_MS && value <= LONGEST_MS ? value : standard;
}

int tl_environment_ms(const char *name) {
    const char *text = getenv(name);
    return text ? tl_valid_ms(atoi(text), 0) : 0;
}

int tl_switched_off(void) {
    const char *text = getenv("THROUGHLINE_SHIM");
    return text && (strcmp(text, "off") == 0 || strcmp(text, "0") == 0 || strcmp(text, "no") == 0);
}
