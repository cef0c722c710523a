/*
 * What this rank has counted, in a file beside the agent's socket: an agent that is killed or replaced while the rank ends
 * has not yet stored what it was sent, or was never there. The next one takes the file, and one that is there removes it.
 * The folder SOCKET.last is the agent's: everybody may make files in it, nobody lists it. Where there is none, or it is
 * full, nothing is left. Used where the program ends, by one thread.
 */
#define _GNU_SOURCE
#include "last_totals.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "environment.h"
#include "frame.h"

enum {
    FILE_LIMIT = 1 << 20,   /* as the agent reads it */
    OTHER_SPACE = 256 << 10, /* peers may not use it: a job of 30,000 ranks has too many of them */
    BYE_SPACE = 1024         /* reserved for the last frame, which marks the file as complete */
};

static int file = -1;
static size_t length, limit;
static uint32_t sequence;

/* A program may bound its files (RLIMIT_FSIZE), and is killed where it writes beyond. */
static size_t space(void) {
    struct rlimit bound;
    if (getrlimit(RLIMIT_FSIZE, &bound) != 0) return 0;
    return bound.rlim_cur < FILE_LIMIT ? (size_t)bound.rlim_cur : FILE_LIMIT;
}

int tl_last_begin(const char *path, int64_t epoch, int rank) {
    char name[PATH_MAX];
    length = 0;
    sequence = 0;
    limit = space();
    int made = snprintf(name, sizeof name, "%s.last/%lld-%d", path, (long long)epoch, rank);
    if (!*path || made < 0 || (size_t)made >= sizeof name) return 0;
    file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    /* The folder's group is the agent's, whatever this process masks. */
    if (file >= 0 && fchmod(file, 0640) != 0) tl_debug("the file of the last totals keeps its mode");
    return file >= 0;
}

int tl_last_writing(void) {
    return file >= 0;
}

int tl_last_put(struct tl_frame *frame) {
    uint16_t type = (uint16_t)(frame->bytes[6] | frame->bytes[7] << 8);
    size_t stored = type == TL_BYE ? 0 : type == TL_PEERS ? OTHER_SPACE : BYE_SPACE;
    size_t most = limit > stored ? limit - stored : 0;
    if (frame->length > most || length > most - frame->length) return 0;
    tl_frame_end(frame, sequence++, tl_clock(CLOCK_MONOTONIC), tl_clock(CLOCK_REALTIME));
    ssize_t written = pwrite(file, frame->bytes, frame->length, (off_t)length);
    if (written != (ssize_t)frame->length) { /* no space: half a frame must not stay */
        if (ftruncate(file, (off_t)length) != 0) tl_debug("half a frame stays in the file of the last totals");
        limit = length;
        return 0;
    }
    length += frame->length;
    return 1;
}

void tl_last_end(void) {
    if (file >= 0) close(file);
    file = -1;
}
