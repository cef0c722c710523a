/*
 * The socket to the agent. Everything is non-blocking: a slow, stopped or dead agent costs the program a
 * counted loss, never time. Used by one thread at a time (the flush thread, or MPI_Finalize after it ended).
 */
#define _GNU_SOURCE
#include "channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "shim.h"

static int channel = -1;
static uint64_t lost, connections;
static uint32_t sequence;
static char paths[2][sizeof((struct sockaddr_un *)0)->sun_path];

int tl_channel_connected(void) {
    return channel >= 0;
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

int tl_channel_connect(void) {
    if (channel >= 0) return 1;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i][0] && connect_to(paths[i])) return 1;
    return 0;
}

void tl_channel_close(void) {
    if (channel >= 0) close(channel);
    channel = -1;
}

static int may_retry(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == EINTR;
}

int tl_channel_send(struct tl_frame *frame, int patience_ms) {
    tl_frame_end(frame, sequence++, tl_clock(CLOCK_MONOTONIC), tl_clock(CLOCK_REALTIME));
    if (channel < 0) {
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
    if (channel < 0) return 0;
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
