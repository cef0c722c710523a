/*
 * Regions of a program for Throughline: which part of it an MPI operation belongs to. Nothing has to be linked, and
 * without Throughline's object in the process nothing happens.
 *
 *   throughline_region_begin("solve");
 *   ...
 *   throughline_region_end("solve");
 *
 * Regions nest; each thread has its own. An MPI operation counts in the innermost one. A region that is ended while others
 * are open in it ends those too, which is counted as a mistake; so is the end of one that is not open. Names should
 * be few: of a process 255 are recorded, of each name 255 bytes; calls in further ones count in the region around them.
 *
 * In code that the compiler makes position-dependent (-fno-pic -no-pie) the linker decides that nothing is
 * there; then nothing happens, whatever is in the process.
 */
#ifndef THROUGHLINE_H
#define THROUGHLINE_H

#ifdef __cplusplus
extern "C" {
#endif

extern void throughline_shim_region_begin(const char *name) __attribute__((weak));
extern void throughline_shim_region_end(const char *name) __attribute__((weak));

/* 1 if regions go anywhere. */
static inline int throughline_available(void) {
    return throughline_shim_region_begin != 0 && throughline_shim_region_end != 0;
}

/* The calling thread is in the region `name` from here on. */
static inline void throughline_region_begin(const char *name) {
    if (throughline_shim_region_begin) throughline_shim_region_begin(name);
}

/* It has left it; a null pointer means the innermost one. */
static inline void throughline_region_end(const char *name) {
    if (throughline_shim_region_end) throughline_shim_region_end(name);
}

#ifdef __cplusplus
}
#endif

#endif
