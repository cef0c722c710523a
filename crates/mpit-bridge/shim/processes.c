/*
 * Processes as /proc has them. Nothing is kept open, and what can't be read is not known.
 */
#define _GNU_SOURCE
#include "processes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STAT_LIMIT = 512, BOOT_ID_LENGTH = 36 };

ssize_t tl_read_file(const char *path, char *to, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t got = 0;
    while (got < size - 1) {
        ssize_t n = read(fd, to + got, size - 1 - got);
        if (n <= 0) break;
        got += (size_t)n;
    }
    close(fd);
    to[got] = '\0';
    return (ssize_t)got;
}

struct stat_fields {
    int parent;
    unsigned threads;
    unsigned long long start;
};

/* The fields 4, 20 and 22 of /proc/PID/stat, counted from the end of the command, which may itself hold spaces and parentheses. */
static int stat_of(pid_t pid, struct stat_fields *found) {
    char path[64], text[STAT_LIMIT];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (tl_read_file(path, text, sizeof text) <= 0) return 0;
    const char *after = strrchr(text, ')');
    return after && sscanf(after + 1,
                           " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %u %*s %llu",
                           &found->parent, &found->threads, &found->start) == 3;
}

pid_t tl_process_parent(pid_t pid) {
    struct stat_fields found;
    return stat_of(pid, &found) ? found.parent : 0;
}

unsigned tl_process_threads(void) {
    struct stat_fields found;
    return stat_of(getpid(), &found) ? found.threads : 0;
}

int tl_process_start(pid_t pid, char text[TL_START_LIMIT]) {
    char boot[STAT_LIMIT];
    struct stat_fields found;
    if (tl_read_file("/proc/sys/kernel/random/boot_id", boot, sizeof boot) < BOOT_ID_LENGTH) return 0;
    if (!stat_of(pid, &found)) return 0;
    snprintf(text, TL_START_LIMIT, "%.*s:%llu", BOOT_ID_LENGTH, boot, found.start);
    return 1;
}
