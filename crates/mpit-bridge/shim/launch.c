/*
 * One start of Hydra's mpiexec is distinguished from the next one that is given the same port. Where the shim is preloaded for the ranks'
 * sake, mpiexec has loaded it as well; and Hydra gives its own environment to its ranks on all nodes. So mpiexec puts its start there:
 * nothing else that Hydra passes on to other nodes is of this launch alone.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "processes.h"

/* MPICH's and Intel MPI's: mpirun and mpiexec are links to it. */
static int is_hydra(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "mpiexec.hydra") == 0;
}

__attribute__((constructor)) static void at_load(void) {
    char start[TL_START_LIMIT];
    if (is_hydra() && !tl_switched_off() && tl_process_start(getpid(), start)) setenv(TL_LAUNCH_VARIABLE, start, 1);
}
