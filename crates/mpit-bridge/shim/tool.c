/*
 * Opens MPI_T so that the flush thread may read from it. A program that has not initialized MPI_T must find that it is not, so it is
 * open for as long only as the shim needs it.
 *
 * Where MPI keeps the promise, that is MPI_T_init_thread with MPI_THREAD_MULTIPLE, which concerns MPI_T alone. It stays open to the
 * end, as MPICH 4.0 crashes where MPI_T is used after it was ended: so it is only opened where the program's user forced an
 * algorithm (settings.c) or variables are requested, and an MPI_T_finalize too many of the program is answered here.
 *
 * Not so in Open MPI: there MPI_T_init_thread opens every component that is installed (0.2 s, and devices that the
 * program does not use), takes its argument as the thread level of the whole library, and crashes in 4.1 if it is
 * ended after MPI_Finalize. What it guards is one exported counter: while that is above 0, the other functions answer
 * about the components in use, which are the ones worth reading. So the counter is raised by one around the shim's own
 * reads, never while the program is in MPI_T_init_thread or MPI_T_finalize, which then do all that they do without the shim.
 */
#define _GNU_SOURCE
#include "tool.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "library.h"
#include "shim.h"

struct tl_tool tl_tool;

static enum { NOT_OPEN, OPEN, ENDED } state;
static int has_begun; /* MPI_T_init_thread was called here */
static uint32_t *openmpi_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* who changes whether MPI_T is initialized */
static int program_users;   /* MPI_T_init_thread of the program, less its MPI_T_finalize */
static int not_initialized; /* what the library answers then (MPI_T_ERR_NOT_INITIALIZED); 0: not known */
static int (*init_thread)(int, int *);

static int find(void *target, const char *symbol) {
    void *found = tl_find(symbol);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

static int find_functions(void) {
    struct tl_tool *t = &tl_tool;
    return find(&init_thread, "PMPI_T_init_thread") && find(&t->pvar_get_num, "PMPI_T_pvar_get_num") && find(&t->pvar_get_info, "PMPI_T_pvar_get_info") &&
           find(&t->session_create, "PMPI_T_pvar_session_create") &&
           find(&t->session_free, "PMPI_T_pvar_session_free") &&
           find(&t->handle_alloc, "PMPI_T_pvar_handle_alloc") &&
           find(&t->handle_free, "PMPI_T_pvar_handle_free") && find(&t->start, "PMPI_T_pvar_start") &&
           find(&t->read, "PMPI_T_pvar_read") && find(&t->cvar_get_num, "PMPI_T_cvar_get_num") &&
           find(&t->cvar_get_info, "PMPI_T_cvar_get_info") &&
           find(&t->cvar_handle_alloc, "PMPI_T_cvar_handle_alloc") &&
           find(&t->cvar_handle_free, "PMPI_T_cvar_handle_free") && find(&t->cvar_read, "PMPI_T_cvar_read");
}

/* The one function that musl lacks. A loader of musl ends each program whose preload needs one that is not there. */
#pragma weak dladdr1

/* The counter, if it is what it was in 4.1 and 5.0. */
static uint32_t *find_count(void) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    void *count = tl_find("ompi_mpit_init_count");
    if (!count || !dladdr1 || !dladdr1(count, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return NULL;
    return symbol->st_size == sizeof(uint32_t) ? count : NULL;
}

static void count_by(int step) {
    if (openmpi_count) __atomic_fetch_add(openmpi_count, (uint32_t)step, __ATOMIC_SEQ_CST);
}

int tl_tool_open(void) {
    if (TL_LOAD(&state) != NOT_OPEN) return TL_LOAD(&state) == OPEN;
    if (!find_functions()) return 0;
    int provided = 0, variables;
    if (!program_users) not_initialized = tl_tool.cvar_get_num(&variables);
    if (tl_library.family == TL_FAMILY_OPENMPI) {
        openmpi_count = find_count();
        if (!openmpi_count) return 0;
    } else if (!has_begun) {
        has_begun = init_thread(tl_library.thread_multiple, &provided) == 0;
        if (!has_begun || provided < tl_library.thread_multiple) return 0;
    }
    TL_STORE(&state, OPEN);
    return 1;
}

/* Without the lock, as nobody may wait for a read that hangs. */
void tl_tool_end(void) {
    TL_STORE(&state, ENDED);
}

int tl_tool_read_begin(void) {
    pthread_mutex_lock(&lock);
    if (TL_LOAD(&state) == OPEN) {
        count_by(1);
        return 1;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

void tl_tool_read_end(void) {
    count_by(-1);
    pthread_mutex_unlock(&lock);
}

int tl_tool_program_init(int (*next)(int, int *), int required, int *provided) {
    pthread_mutex_lock(&lock);
    int status = next(required, provided);
    program_users += status == 0;
    pthread_mutex_unlock(&lock);
    return status;
}

int tl_tool_program_finalize(int (*next)(void)) {
    pthread_mutex_lock(&lock);
    int is_ours = has_begun && program_users <= 0 && not_initialized;
    int status = is_ours ? not_initialized : next();
    program_users -= status == 0;
    pthread_mutex_unlock(&lock);
    return status;
}
