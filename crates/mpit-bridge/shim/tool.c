/*
 * Opens MPI_T so that the flush thread may read from it. Where MPI keeps the promise, that is MPI_T_init_thread with
 * MPI_THREAD_MULTIPLE, which concerns MPI_T alone.
 *
 * Not so in Open MPI: there MPI_T_init_thread opens every component that is installed (0.2 s, and devices that the
 * program does not use), takes its argument as the thread level of the whole library, and crashes in 4.1 if it is
 * ended after MPI_Finalize. What it guards is one exported counter: while that is above 0, the other functions answer
 * about the components in use, which are the ones worth reading. So the counter is raised by one, and taken back
 * around the program's own MPI_T_init_thread and MPI_T_finalize, which then do all that they do without the shim.
 */
#define _GNU_SOURCE
#include "tool.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

struct tl_tool tl_tool;

static enum { NOT_TRIED, CLOSED, OPEN } state;
static uint32_t *openmpi_count;
static int (*init_thread)(int, int *);
static int (*finalize)(void);

static int find(void *target, const char *symbol) {
    void *found = tl_find(symbol);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

static int find_functions(void) {
    struct tl_tool *t = &tl_tool;
    return find(&init_thread, "PMPI_T_init_thread") && find(&finalize, "PMPI_T_finalize") &&
           find(&t->pvar_get_num, "PMPI_T_pvar_get_num") && find(&t->pvar_get_info, "PMPI_T_pvar_get_info") &&
           find(&t->session_create, "PMPI_T_pvar_session_create") &&
           find(&t->session_free, "PMPI_T_pvar_session_free") &&
           find(&t->handle_alloc, "PMPI_T_pvar_handle_alloc") &&
           find(&t->handle_free, "PMPI_T_pvar_handle_free") && find(&t->start, "PMPI_T_pvar_start") &&
           find(&t->read, "PMPI_T_pvar_read") && find(&t->cvar_get_num, "PMPI_T_cvar_get_num") &&
           find(&t->cvar_get_info, "PMPI_T_cvar_get_info") &&
           find(&t->cvar_handle_alloc, "PMPI_T_cvar_handle_alloc") &&
           find(&t->cvar_handle_free, "PMPI_T_cvar_handle_free") && find(&t->cvar_read, "PMPI_T_cvar_read");
}

/* The counter, if it is what it was in 4.1 and 5.0. */
static uint32_t *find_count(void) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    void *count = tl_find("ompi_mpit_init_count");
    if (!count || !dladdr1(count, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return NULL;
    return symbol->st_size == sizeof(uint32_t) ? count : NULL;
}

static void count_by(int step) {
    if (openmpi_count) __atomic_fetch_add(openmpi_count, (uint32_t)step, __ATOMIC_SEQ_CST);
}

int tl_tool_open(void) {
    if (state != NOT_TRIED) return state == OPEN;
    state = CLOSED;
    if (!find_functions()) return 0;
    int provided = 0;
    if (tl_library.family == TL_FAMILY_OPENMPI) {
        openmpi_count = find_count();
        if (!openmpi_count) return 0;
        count_by(1);
    } else if (init_thread(tl_library.thread_multiple, &provided) != 0) {
        return 0;
    } else if (provided < tl_library.thread_multiple) {
        finalize();
        return 0;
    }
    state = OPEN;
    return 1;
}

void tl_tool_close(void) {
    if (state != OPEN) return;
    state = CLOSED;
    if (openmpi_count) count_by(-1);
    else finalize();
}

void tl_tool_step_back(void) {
    if (state == OPEN) count_by(-1);
}

void tl_tool_step_in(void) {
    if (state == OPEN) count_by(1);
}
