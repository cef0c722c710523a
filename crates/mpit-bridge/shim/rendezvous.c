/*
 * How ranks find rank 0's port: by a file in a folder that all nodes of the job share, as home folders are.
 * MPI is not queried: a rank can't know whether all others trace as well, and a collective call that one of them
 * does not make would hang the program.
 *
 * The file is readable by its owner only and taken from nobody else: it holds the cookie without which rank 0
 * answers nothing. Its name is made of what all ranks of the job have in common.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "identity.h"
#include "rendezvous.h"

enum { TEXT_LIMIT = 1024 };

static char folder[PATH_MAX], path[PATH_MAX + 64];

static int set_folder(void) {
    const char *given = getenv("THROUGHLINE_TRACE_DIR");
    const char *home = getenv("HOME");
    int length;
    if (given && *given) length = snprintf(folder, sizeof folder, "%s", given);
    else if (home && *home) length = snprintf(folder, sizeof folder, "%s/.throughline", home);
    else return 0;
    return length > 0 && (size_t)length < sizeof folder;
}

/* Any hash would do: who could choose the text is the owner of the folder. */
static uint64_t hash(const char *text) {
    uint64_t value = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++) value = (value ^ (uint8_t)*text) * 0x100000001b3u;
    return value;
}

int tl_meeting_configure(void) {
    char job[4096];
    if (!set_folder() || !tl_identity_job(job, sizeof job)) return 0;
    snprintf(path, sizeof path, "%s/clock-%016llx", folder, (unsigned long long)hash(job));
    return 1;
}

static size_t text_of(const struct tl_meeting *meeting, char text[TEXT_LIMIT]) {
    size_t used = (size_t)snprintf(text, TEXT_LIMIT, "throughline-clock 1 %u ", meeting->port);
    for (int i = 0; i < TL_COOKIE_BYTES; i++)
        used += (size_t)snprintf(text + used, TEXT_LIMIT - used, "%02x", meeting->cookie[i]);
    for (int i = 0; i < meeting->addresses; i++) {
        char address[INET6_ADDRSTRLEN];
        if (!inet_ntop(AF_INET6, &meeting->address[i], address, sizeof address)) continue;
        used += (size_t)snprintf(text + used, TEXT_LIMIT - used, " %s", address);
    }
    return used;
}

int tl_meeting_publish(const struct tl_meeting *meeting) {
    char text[TEXT_LIMIT], own[sizeof path + 16];
    size_t length = text_of(meeting, text);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) return 0;
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    unlink(own);
    int fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return 0;
    int written = write(fd, text, length) == (ssize_t)length;
    close(fd);
    if (written && rename(own, path) == 0) return 1;
    unlink(own);
    return 0;
}

static int parse(char *text, struct tl_meeting *meeting) {
    unsigned port = 0;
    int used = 0;
    memset(meeting, 0, sizeof *meeting);
    if (sscanf(text, "throughline-clock 1 %5u %n", &port, &used) != 1 || port == 0 || port > UINT16_MAX) return 0;
    meeting->port = (uint16_t)port;
    char *at = text + used;
    for (int i = 0; i < TL_COOKIE_BYTES; i++, at += 2)
        if (sscanf(at, "%2hhx", &meeting->cookie[i]) != 1) return 0;
    char *rest = NULL;
    for (char *word = strtok_r(at, " ", &rest); word && meeting->addresses < TL_ADDRESSES; word = strtok_r(NULL, " ", &rest))
        if (inet_pton(AF_INET6, word, &meeting->address[meeting->addresses]) == 1) meeting->addresses++;
    return meeting->addresses > 0;
}

int tl_meeting_find(struct tl_meeting *meeting) {
    char text[TEXT_LIMIT];
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return 0;
    ssize_t length = -1;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() && (about.st_mode & 077) == 0)
        length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 2 * TL_COOKIE_BYTES) return 0;
    text[length] = '\0';
    return parse(text, meeting);
}

void tl_meeting_end(void) {
    if (path[0]) unlink(path);
}
