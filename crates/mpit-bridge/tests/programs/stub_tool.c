/*
 * MPI_T for the library that looks like MPICH: performance variables of every class, datatype and binding, some with
 * MVAPICH2's names, and a control variable. Linked to stub_mpi.c by the test; the order of the rows is their number.
 *
 * What a library may do to a tool is done: a variable must be started before it counts, one appears late, one belongs
 * to a window, one is text, one is an array, and a variable bound to a communicator wants the world's address.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int stub_tool_count(int bytes);
int stub_tool_reads(void);

enum { STATE = 240, LEVEL, SIZE, PERCENTAGE, HIGHWATERMARK, LOWWATERMARK, COUNTER, AGGREGATE, TIMER, GENERIC };
enum { NO_OBJECT = 9700, COMM = 9701, WIN = 9705, WORLD = 0x44000000, ERROR = 60 };
enum {
    CHAR = 0x4c000101, INT = 0x4c000405, UNSIGNED = 0x4c000406, LONG = 0x4c000807, UNSIGNED_LONG = 0x4c000808,
    UNSIGNED_LONG_LONG = 0x4c000819, DOUBLE = 0x4c00080b, FLOAT = 0x4c00040a, COUNT = 0x4c000845
};

static uint64_t shared_memory_rd, two_level_rs;
static const int32_t minus_three = -3;
static const uint32_t levels[4] = {7, 8, 9, 4000000000u};
static const uint64_t large = 5000000000u;
static const int64_t minus_large = -5000000000;
static const double half = 0.5, seconds = 12.25;
static const float quarter = 0.25f;
static const char text[8] = "text";

static const struct {
    const char *name;
    int class, type, bind, count, continuous;
    const void *value;
} variables[] = {
    {"mv2_coll_allreduce_shm_rd", COUNTER, UNSIGNED_LONG_LONG, NO_OBJECT, 1, 1, &shared_memory_rd},
    {"mv2_coll_allreduce_2lvl_rs", COUNTER, UNSIGNED_LONG, NO_OBJECT, 1, 0, &two_level_rs},
    {"mv2_coll_timer_allreduce_shm_rd", TIMER, DOUBLE, NO_OBJECT, 1, 1, &seconds},
    {"stub_state", STATE, INT, NO_OBJECT, 1, 1, &minus_three},
    {"stub_levels", LEVEL, UNSIGNED, COMM, 4, 1, levels},
    {"stub_size", SIZE, UNSIGNED_LONG, COMM, 1, 1, &large},
    {"stub_percentage", PERCENTAGE, DOUBLE, NO_OBJECT, 1, 1, &half},
    {"stub_high", HIGHWATERMARK, LONG, NO_OBJECT, 1, 0, &minus_large},
    {"stub_low", LOWWATERMARK, COUNT, NO_OBJECT, 1, 1, &minus_large},
    {"stub_aggregate", AGGREGATE, FLOAT, NO_OBJECT, 1, 1, &quarter},
    {"stub_text", GENERIC, CHAR, NO_OBJECT, 8, 1, text},
    {"stub_of_window", COUNTER, UNSIGNED_LONG, WIN, 1, 1, &large},
    {"stub_not_asked_for", COUNTER, UNSIGNED_LONG, NO_OBJECT, 1, 1, &large},
    {"stub_late", GENERIC, INT, NO_OBJECT, 1, 1, &minus_three}, /* only after the first call */
};
enum { VARIABLES = sizeof variables / sizeof *variables };

struct handle {
    int index, started;
};
static struct handle handles[64];
static int allocated, inits, reads, there = VARIABLES - 1;

/* What the stub's MPI_Allreduce does inside: small messages by one algorithm, large ones by another. */
int stub_tool_count(int bytes) {
    __atomic_store_n(&there, VARIABLES, __ATOMIC_RELEASE);
    __atomic_fetch_add(bytes <= 1024 ? &shared_memory_rd : &two_level_rs, 1, __ATOMIC_SEQ_CST);
    return 0;
}

int stub_tool_reads(void) {
    return __atomic_load_n(&reads, __ATOMIC_SEQ_CST);
}

int PMPI_T_init_thread(int required, int *provided);
int PMPI_T_init_thread(int required, int *provided) {
    *provided = required;
    inits++;
    return 0;
}
int PMPI_T_finalize(void);
int PMPI_T_finalize(void) {
    return inits-- > 0 ? 0 : ERROR;
}
int PMPI_T_pvar_get_num(int *count);
int PMPI_T_pvar_get_num(int *count) {
    *count = __atomic_load_n(&there, __ATOMIC_ACQUIRE);
    return inits > 0 ? 0 : ERROR;
}
int PMPI_T_pvar_get_info(int index, char *name, int *name_length, int *verbosity, int *class, int *type,
                         void *enumeration, char *description, int *description_length, int *bind, int *read_only,
                         int *continuous, int *atomic);
int PMPI_T_pvar_get_info(int index, char *name, int *name_length, int *verbosity, int *class, int *type,
                         void *enumeration, char *description, int *description_length, int *bind, int *read_only,
                         int *continuous, int *atomic) {
    (void)enumeration;
    (void)description_length;
    if (index < 0 || index >= VARIABLES) return ERROR;
    snprintf(name, (size_t)*name_length, "%s", variables[index].name);
    if (description) description[0] = '\0';
    *verbosity = *read_only = *atomic = 0;
    *class = variables[index].class;
    *type = variables[index].type;
    *bind = variables[index].bind;
    *continuous = variables[index].continuous;
    return 0;
}
int PMPI_T_pvar_session_create(void **session);
int PMPI_T_pvar_session_create(void **session) {
    *session = handles;
    return inits > 0 ? 0 : ERROR;
}
int PMPI_T_pvar_session_free(void **session);
int PMPI_T_pvar_session_free(void **session) {
    return *session == handles ? 0 : ERROR;
}
int PMPI_T_pvar_handle_alloc(void *session, int index, void *object, void **handle, int *count);
int PMPI_T_pvar_handle_alloc(void *session, int index, void *object, void **handle, int *count) {
    if (session != handles || index < 0 || index >= VARIABLES || allocated >= 64) return ERROR;
    if (variables[index].bind == WIN) return ERROR;
    if (variables[index].bind == COMM && (!object || *(int *)object != WORLD)) return ERROR;
    handles[allocated] = (struct handle){index, variables[index].continuous};
    *handle = &handles[allocated++];
    *count = variables[index].count;
    return 0;
}
int PMPI_T_pvar_handle_free(void *session, void **handle);
int PMPI_T_pvar_handle_free(void *session, void **handle) {
    *handle = NULL;
    return session == handles ? 0 : ERROR;
}
int PMPI_T_pvar_start(void *session, struct handle *handle);
int PMPI_T_pvar_start(void *session, struct handle *handle) {
    handle->started = 1;
    return session == handles ? 0 : ERROR;
}
int PMPI_T_pvar_read(void *session, struct handle *handle, void *to);
int PMPI_T_pvar_read(void *session, struct handle *handle, void *to) {
    if (session != handles) return ERROR;
    const char *slow_ms = getenv("STUB_TOOL_SLOW_MS"); /* as on a node whose cores are taken */
    if (slow_ms) usleep((unsigned)atoi(slow_ms) * 1000);
    size_t size = (size_t)variables[handle->index].type >> 8 & 0xff;
    memset(to, 0, size * (size_t)variables[handle->index].count);
    if (handle->started && variables[handle->index].value == &shared_memory_rd) {
        *(uint64_t *)to = __atomic_load_n(&shared_memory_rd, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&reads, 1, __ATOMIC_SEQ_CST);
    } else if (handle->started && variables[handle->index].value == &two_level_rs) {
        *(uint64_t *)to = __atomic_load_n(&two_level_rs, __ATOMIC_SEQ_CST);
    } else if (handle->started) {
        memcpy(to, variables[handle->index].value, size * (size_t)variables[handle->index].count);
    }
    return 0;
}

/* ---- control variables: number 1 decides an algorithm ---- */

int PMPI_T_cvar_get_num(int *count);
int PMPI_T_cvar_get_num(int *count) {
    *count = 2;
    return 0;
}
int PMPI_T_cvar_get_info(int index, char *name, int *name_length, int *verbosity, int *type, void *enumeration,
                         char *description, int *description_length, int *bind, int *scope);
int PMPI_T_cvar_get_info(int index, char *name, int *name_length, int *verbosity, int *type, void *enumeration,
                         char *description, int *description_length, int *bind, int *scope) {
    (void)enumeration, (void)description, (void)description_length;
    snprintf(name, (size_t)*name_length, "%s", index ? "MPIR_CVAR_BCAST_COLLECTIVE_ALGORITHM" : "MPIR_CVAR_OTHER");
    *verbosity = *bind = *scope = 0;
    *type = INT;
    return 0;
}
int PMPI_T_cvar_handle_alloc(int index, void *object, void **handle, int *count);
int PMPI_T_cvar_handle_alloc(int index, void *object, void **handle, int *count) {
    (void)object;
    *handle = &handles[index];
    *count = 1;
    return 0;
}
int PMPI_T_cvar_handle_free(void **handle);
int PMPI_T_cvar_handle_free(void **handle) {
    *handle = NULL;
    return 0;
}
int PMPI_T_cvar_read(void *handle, int *to);
int PMPI_T_cvar_read(void *handle, int *to) {
    (void)handle;
    *to = 2;
    return 0;
}
