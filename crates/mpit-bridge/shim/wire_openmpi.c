/*
 * Switches on Open MPI's pml_monitoring, and stands before the function by which it counts each message. Only built into the
 * objects for Open MPI.
 *
 * Switched on by its parameter, the monitoring also puts itself before every collective (coll_monitoring) and every window
 * (osc_monitoring). coll_monitoring crashes correct programs in 4.1 and 5.0: it frees the other components' modules twice
 * and writes beyond a list of ranks on intercommunicators, and takes every neighbourhood for a cartesian one. Here it is
 * switched on for messages alone:
 *   register   the parameter is read: set to 1 then, if it was left at its default and MPI_Init goes on
 *   init       succeeds for the first caller, pml_monitoring. coll_monitoring and osc_monitoring, which come later, get the
 *              error that they always get where monitoring is off, and leave
 *   finalize   coll_monitoring calls it when it leaves, although its init failed: ignored
 *   coll_cache_name   reads a table that only coll_monitoring makes: nothing to do without it
 * So no environment variable is set that a program without the shim would inherit, and a user's own setting of the
 * parameter leaves all as it is, coll_monitoring included. These functions are exported by libmca_common_monitoring in 4.1 and
 * by libmpi in 5.0, with the same arguments, and called through the dynamic linker in both. Their sources do not differ
 * within 4.1 (.0 to .8) and 5.0 (.0 to .9); in other versions nothing is switched on.
 */

#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "library.h"
#include "records.h"
#include "shim.h"
#include "threads.h"
#include "wire.h"

/* Of Open MPI's own constants. */
enum { OPENMPI_ERROR = -1, OPENMPI_INIT_STARTED = 1, OPENMPI_SOURCE_DEFAULT = 0 };
enum { VERSION_BYTES = 256 }; /* MPI_MAX_LIBRARY_VERSION_STRING, fixed by its ABI */

/* What the shim has switched on: nothing; nothing yet, as pml_monitoring's init is to come; the monitoring of messages. */
static enum { NOTHING, AWAITS_MESSAGES, MESSAGES } switched_on;

static int find(void *function, const char *symbol) {
    void *found = tl_find(symbol);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* MPI_Init has begun and not yet ended. MPI_T_init_thread before it, and sessions without it, are other times: 4.1 crashes
 * where monitoring was on in MPI_T alone, and 5.0 counts by MPI_COMM_WORLD, which a session does not make. */
static int is_within_init(void) {
    const int *state = tl_find_data("ompi_mpi_state");
    return state && __atomic_load_n(state, __ATOMIC_ACQUIRE) == OPENMPI_INIT_STARTED;
}

/* Nobody has set the parameter, be it in the environment, on mpirun's command line or in a file. */
static int is_default(void) {
    int (*index_of)(const char *, const char *, const char *, const char *);
    int (*value_of)(int, void *, int *, const char **);
    const void *value = NULL;
    int source = -1;
    if (!find(&index_of, "mca_base_var_find") || !find(&value_of, "mca_base_var_get_value")) return 0;
    int index = index_of("ompi", "pml", "monitoring", "enable");
    return index >= 0 && value_of(index, &value, &source, NULL) == 0 && source == OPENMPI_SOURCE_DEFAULT;
}

static int is_known_version(void) {
    int (*get_version)(char *, int *);
    char text[VERSION_BYTES] = "";
    int length = 0, major = 0, minor = 0;
    if (!find(&get_version, "PMPI_Get_library_version") || get_version(text, &length) != 0) return 0;
    if (sscanf(text, "Open MPI v%d.%d", &major, &minor) != 2) return 0;
    return (major == 4 && minor == 1) || (major == 5 && minor == 0);
}

/* NULL: there is none. */
static const char *reason_against(void) {
    if (!is_within_init()) return "MPI_T_init_thread or a session came before MPI_Init";
    if (!is_default()) return "pml_monitoring_enable is set to 0";
    if (!is_known_version()) return "only in Open MPI 4.1 and 5.0 its monitoring is known to leave programs unharmed";
    return NULL;
}

static void switch_on(void) {
    int *enabled = tl_find_data("mca_common_monitoring_enabled");
    int *state = tl_find_data("mca_common_monitoring_current_state");
    if (switched_on || !enabled || !state || *enabled || tl_switched_off() || !tl_wire_requested()) return;
    const char *against = reason_against();
    tl_wire_missing(against);
    if (against) return;
    *enabled = *state = 1;
    switched_on = AWAITS_MESSAGES;
}

/* void register(void *component) in 4.1, int register(void) in 5.0. */
TL_EXPORT int mca_common_monitoring_register(void *component);
TL_EXPORT int mca_common_monitoring_register(void *component) {
    int (*next)(void *);
    if (!find(&next, "mca_common_monitoring_register")) return OPENMPI_ERROR;
    int result = next(component);
    switch_on();
    return result;
}

TL_EXPORT int mca_common_monitoring_init(void);
TL_EXPORT int mca_common_monitoring_init(void) {
    int (*next)(void);
    if (switched_on == MESSAGES || !find(&next, "mca_common_monitoring_init")) return OPENMPI_ERROR;
    int result = next();
    if (switched_on && result == 0) switched_on = MESSAGES;
    return result;
}

TL_EXPORT void mca_common_monitoring_finalize(void);
TL_EXPORT void mca_common_monitoring_finalize(void) {
    void (*next)(void);
    if (switched_on && (switched_on != MESSAGES || is_within_init())) return;
    if (find(&next, "mca_common_monitoring_finalize")) next();
    switched_on = NOTHING;
}

TL_EXPORT int mca_common_monitoring_coll_cache_name(void *comm);
TL_EXPORT int mca_common_monitoring_coll_cache_name(void *comm) {
    int (*next)(void *);
    if (switched_on || !find(&next, "mca_common_monitoring_coll_cache_name")) return OPENMPI_ERROR;
    return next(comm);
}

typedef void (*tl_record)(int world_rank, size_t bytes, int tag);

TL_EXPORT void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag);
TL_EXPORT void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag) {
    static tl_record following;
    if (__atomic_load_n(&tl_wire_counts, __ATOMIC_ACQUIRE) && TL_LOAD(&tl_recording)) tl_wire_message(world_rank, bytes, tag);
    tl_record next = __atomic_load_n(&following, __ATOMIC_ACQUIRE);
    if (TL_UNLIKELY(!next)) {
        if (!find(&next, "mca_common_monitoring_record_pml")) return;
        __atomic_store_n(&following, next, __ATOMIC_RELEASE);
    }
    next(world_rank, bytes, tag);
}
