/*
 * The `wire` matrix: messages that the library really sends, also inside collectives, by Open MPI's own monitoring
 * (component pml_monitoring). Opt-in, as it costs 0.1 us a message. The component must be switched on before MPI_Init
 * by OMPI_MCA_pml_monitoring_enable: done when this object is loaded, where THROUGHLINE_WIRE=1 or the agent has laid a
 * file called like its socket with `.wire` at its end, which says that it wants everybody's. What the component
 * counts is observed by standing before its exported function (wire_openmpi.c); its own counters go on as usual.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct tl_peer *tl_wire;
static int wanted;

/* 1: yes, 0: no, -1: the environment does not say. */
static int requested_by_environment(void) {
    const char *text = getenv("THROUGHLINE_WIRE");
    if (!text || !*text) return -1;
    return strcmp(text, "0") != 0 && strcmp(text, "off") != 0 && strcmp(text, "no") != 0;
}

static int agent_wants(void) {
    const char *socket = getenv("THROUGHLINE_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
    char path[256];
    if (socket && *socket) {
        snprintf(path, sizeof path, "%s.wire", socket);
        return access(path, F_OK) == 0;
    }
    if (access("/run/throughline/mpi.sock.wire", F_OK) == 0) return 1;
    snprintf(path, sizeof path, "%s/throughline/mpi.sock.wire", run ? run : "");
    return run && *run && access(path, F_OK) == 0;
}

/* Before main, in programs that have nothing to do with MPI too: so as little as can be. */
__attribute__((constructor)) static void switch_on(void) {
    const char *shim = getenv("THROUGHLINE_SHIM");
    if (shim && (strcmp(shim, "off") == 0 || strcmp(shim, "0") == 0 || strcmp(shim, "no") == 0)) return;
    int requested = requested_by_environment();
    if (requested == 1 || (requested < 0 && agent_wants())) setenv("OMPI_MCA_pml_monitoring_enable", "1", 0);
}

void tl_wire_start(void) {
    wanted = requested_by_environment() == 1;
    if (tl_library.family != TL_FAMILY_OPENMPI || tl_world_size <= 0 || tl_world_size > TL_WORLD_LIMIT) return;
    void *memory = mmap(NULL, (size_t)tl_world_size * sizeof *tl_wire, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) __atomic_store_n(&tl_wire, memory, __ATOMIC_RELEASE);
}

void tl_wire_want(int setting) {
    if (requested_by_environment() < 0) wanted = setting;
}

const struct tl_peer *tl_wire_reported(void) {
    return wanted ? tl_wire : NULL;
}
