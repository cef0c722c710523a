/*
 * The socket to the agent. Everything is non-blocking: a slow, stopped or dead agent costs the program a
 * counted loss, never time. Used by one thread at a time (the flush thread, or MPI_Finalize after it ended).
 */
#define _GNU_SOURCE
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "environment.h"
#include "frame.h"
#include "last_totals.h"

/* The descriptor's number is at most this, which select(2) can take. */
enum { HIGHEST_DESCRIPTOR = 1023 };

static int channel = -1;
static struct stat channel_is; /* which socket it was when it was made */
static uint64_t lost, connections;
static uint32_t sequence;
static char paths[2][sizeof((struct sockaddr_un *)0)->sun_path];

int tl_channel_connected(void) {
    return channel >= 0;
}

/* Programs close all descriptors that they do not know (closefrom), or put files of their own in their place
 * (dup2). The number is then the program's: nothing may be sent there, and it must not be closed. */
static int still_own(void) {
    struct stat now;
    if (channel < 0) return 0;
    if (fstat(channel, &now) == 0 && now.st_dev == channel_is.st_dev && now.st_ino == channel_is.st_ino) return 1;
    tl_debug("descriptor %d was closed by the program", channel);
    channel = -1;
    return 0;
}

/* Descriptors for which the kernel has space in this process now; 0 if it does not tell. A higher number makes it grow
 * the table, for which a process with several threads waits 10 ms and more (synchronize_rcu). */
static int space_of_descriptors(void) {
    static const char name[] = "\nFDSize:";
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return 0;
    text[length] = '\0';
    const char *found = strstr(text, name);
    return found ? atoi(found + sizeof name - 1) : 0;
}

/* Out of the program's way: it gets the low numbers that it would have got without us. */
static int moved_up(int fd) {
    struct rlimit limit;
    int highest = space_of_descriptors() - 1;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return fd;
    if (highest > HIGHEST_DESCRIPTOR) highest = HIGHEST_DESCRIPTOR;
    if ((rlim_t)highest >= limit.rlim_cur) highest = (int)limit.rlim_cur - 1;
    /* From the top down, so that a program which takes all numbers in turn meets ours last. */
    for (int at = highest; at > fd && at > highest - 8; at--) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, at);
        if (high < 0) continue;
        close(fd);
        return high;
    }
    return fd;
}

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return 0;
    }
    fd = moved_up(fd);
    if (fstat(fd, &channel_is) != 0) {
        close(fd);
        return 0;
    }
    channel = fd;
    connections++;
    tl_debug("connected to %s", path);
    return 1;
}

static void set_path(char path[sizeof *paths], const char *folder, const char *name) {
    int length = snprintf(path, sizeof *paths, "%s%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof *paths) path[0] = '\0';
}

void tl_channel_configure(void) {
    const char *given = getenv("THROUGHLINE_SOCKET");
    const char *run = getenv("XDG_RUNTIME_DIR");
    memset(paths, 0, sizeof paths);
    if (given && *given) {
        set_path(paths[0], given, "");
    } else {
        set_path(paths[0], "/run/throughline", "/mpi.sock");
        if (run && *run) set_path(paths[1], run, "/throughline/mpi.sock");
    }
}

const char *tl_channel_path(int i) {
    return i >= 0 && (size_t)i < sizeof paths / sizeof *paths ? paths[i] : NULL;
}

int tl_channel_connect(void) {
    if (still_own()) return 1;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i][0] && connect_to(paths[i])) return 1;
    return 0;
}

void tl_channel_close(void) {
    if (still_own()) close(channel);
    channel = -1;
}

static int may_retry(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == EINTR;
}

int tl_channel_send(struct tl_frame *frame, int patience_ms) {
    if (tl_last_writing()) return tl_last_put(frame);
    tl_frame_end(frame, sequence++, tl_clock(CLOCK_MONOTONIC), tl_clock(CLOCK_REALTIME));
    if (!still_own()) {
        lost++;
        return 0;
    }
    int64_t until = tl_clock(CLOCK_MONOTONIC) + (int64_t)patience_ms * 1000000;
    for (;;) {
        ssize_t sent = send(channel, frame->bytes, frame->length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == (ssize_t)frame->length) return 1;
        if (sent >= 0 || !may_retry(errno)) {
            tl_debug("agent gone: %s", strerror(errno));
            tl_channel_close();
            break;
        }
        int64_t left = until - tl_clock(CLOCK_MONOTONIC);
        if (left <= 0) break;
        struct pollfd ready = {.fd = channel, .events = POLLOUT};
        poll(&ready, 1, (int)(left / 1000000) + 1);
    }
    lost++;
    return 0;
}

size_t tl_channel_receive(uint8_t *to, size_t size, int patience_ms) {
    if (!still_own()) return 0;
    if (patience_ms > 0) {
        struct pollfd ready = {.fd = channel, .events = POLLIN};
        if (poll(&ready, 1, patience_ms) <= 0) return 0;
    }
    ssize_t got = recv(channel, to, size, MSG_DONTWAIT);
    if (got > 0) return (size_t)got;
    if (got == 0 || !may_retry(errno)) tl_channel_close();
    return 0;
}

uint64_t tl_channel_lost(void) {
    return lost;
}

uint64_t tl_channel_connections(void) {
    return connections;
}
