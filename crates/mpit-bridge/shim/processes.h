/* What /proc says of processes: this one's ancestors and when they started. */
#ifndef THROUGHLINE_PROCESSES_H
#define THROUGHLINE_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

/* Reads the beginning of a small file, with a NUL behind it. -1 where it can't be opened. */
ssize_t tl_read_file(const char *path, char *to, size_t size);
/* 0 where it is not known. */
pid_t tl_process_parent(pid_t pid);
/* Threads of this process; 0 where it is not known. */
unsigned tl_process_threads(void);

enum { TL_START_LIMIT = 64 };

/* When a process started, in clock ticks since boot, behind the boot's own id: two starts of one process id, port or name never have
 * the same, and no step of a clock changes it. 0 where it is not known. */
int tl_process_start(pid_t pid, char text[TL_START_LIMIT]);

#pragma GCC visibility pop

#endif
