/*
 * Which GPUs the process may use (CUDA_VISIBLE_DEVICES as it was at MPI_Init: what the program sets later is not read, as another
 * thread must not look at an environment that changes), and which /dev/nvidiaN it has open, by the links of /proc/self/fd. An agent
 * can't read either of another user's process. The flush thread looks some time after the start and then each minute; calls of the
 * program have no part in it. No memory is allocated.
 */
#define _GNU_SOURCE
#include "devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"

enum {
    MINORS = 64,            /* GPUs of a node */
    DESCRIPTORS = 4096,     /* looked at: some milliseconds */
    VISIBLE_LIMIT = 1024,   /* of CUDA_VISIBLE_DEVICES: 16 UUIDs of partitions are below 700 */
    LOOK_PUSHES = 60,       /* between two looks, after the first ones */
    FOLDER_BYTES = 8192     /* of one getdents64 */
};

static char visible[VISIBLE_LIMIT];
static int is_set;
static char prefix[256];

struct look {
    enum tl_devices_unknown why; /* 0: the list holds */
    unsigned count;
    uint32_t minors[MINORS];
};
static struct look known;
static int64_t looked_at, before;
static uint64_t reported_to; /* number of the connection that knows it */

void tl_devices_configure(void) {
    /* Doubles of GPUs have their device files elsewhere. */
    const char *folder = getenv("THROUGHLINE_DEVICE_FOLDER"), *value = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(prefix, sizeof prefix, "%s/nvidia", folder ? folder : "/dev");
    is_set = value != NULL;
    if (!is_set) return;
    static const char cut[] = ",...";
    if (strlen(value) < sizeof visible) {
        strcpy(visible, value);
        return;
    }
    /* Cut behind a whole name. */
    memcpy(visible, value, sizeof visible - sizeof cut);
    visible[sizeof visible - sizeof cut] = '\0';
    char *comma = strrchr(visible, ',');
    strcpy(comma ? comma : visible, cut);
}

/* N of /dev/nvidiaN; -1 for any other file. */
static long minor_of(const char *path) {
    size_t length = strlen(prefix);
    if (strncmp(path, prefix, length) != 0 || path[length] < '0' || path[length] > '9') return -1;
    char *end;
    long minor = strtol(path + length, &end, 10);
    return *end || minor > UINT16_MAX ? -1 : minor;
}

/* In order, each once. */
static void add(struct look *look, uint32_t minor) {
    unsigned at = look->count;
    for (unsigned i = 0; i < look->count; i++)
        if (look->minors[i] == minor) return;
    if (look->count == MINORS) {
        look->why = TL_DEVICES_TOO_MANY;
        return;
    }
    for (; at > 0 && look->minors[at - 1] > minor; at--) look->minors[at] = look->minors[at - 1];
    look->minors[at] = minor;
    look->count++;
}

/* The links of one part of the folder. */
static void read_links(int folder, const char *entries, long length, struct look *look, int *left) {
    char path[PATH_MAX];
    for (long at = 0; at < length;) {
        const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
        at += entry->d_reclen;
        if (entry->d_name[0] == '.') continue;
        if ((*left)-- <= 0) {
            look->why = TL_DEVICES_TOO_MANY;
            return;
        }
        ssize_t bytes = readlinkat(folder, entry->d_name, path, sizeof path - 1);
        if (bytes <= 0) continue; /* closed meanwhile */
        path[bytes] = '\0';
        long minor = minor_of(path);
        if (minor >= 0) add(look, (uint32_t)minor);
    }
}

static struct look look_now(void) {
    static char entries[FOLDER_BYTES] __attribute__((aligned(8)));
    struct look look = {.why = TL_DEVICES_UNREADABLE};
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = DESCRIPTORS;
    if (folder < 0) return look;
    look.why = 0;
    long length;
    while (!look.why && (length = syscall(SYS_getdents64, folder, entries, sizeof entries)) != 0) {
        if (length < 0) look.why = TL_DEVICES_UNREADABLE;
        else read_links(folder, entries, length, &look, &left);
    }
    close(folder);
    if (look.why) look.count = 0;
    return look;
}

/* Programs open their GPUs in the first seconds. */
static int is_due(uint64_t pushes, int last) {
    return last || pushes == 1 || pushes == 4 || pushes == 15 || pushes % LOOK_PUSHES == 30;
}

static int report(struct tl_frame *frame, int patience) {
    tl_frame_begin(frame, TL_DEVICES);
    tl_field_u64(frame, TL_DEVICES_TIME, (uint64_t)looked_at);
    tl_field_u64(frame, TL_DEVICES_BEFORE, (uint64_t)before);
    if (is_set) tl_field_text(frame, TL_DEVICES_VISIBLE, visible);
    if (known.why) tl_field_u32(frame, TL_DEVICES_UNKNOWN, known.why);
    else tl_field_u32s(frame, TL_DEVICES_OPEN, known.minors, known.count);
    return tl_channel_send(frame, patience);
}

void tl_devices_push(struct tl_frame *frame, uint64_t pushes, int last, int (*patience)(void)) {
    uint64_t connection = tl_channel_connections();
    int changed = 0;
    if (is_due(pushes, last) || !looked_at) {
        struct look look = look_now();
        changed = !looked_at || look.why != known.why || look.count != known.count ||
                  memcmp(look.minors, known.minors, look.count * sizeof *look.minors) != 0;
        known = look;
        before = looked_at;
        looked_at = tl_clock(CLOCK_MONOTONIC);
        if (!before) before = looked_at;
    }
    if (!changed && reported_to == connection) return;
    reported_to = report(frame, patience()) ? connection : 0;
}
