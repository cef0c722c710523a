/*
 * Names that a program gives its communicators: reported once, with size and the rank's place, and again when one is
 * renamed. Looked up where a communicator is translated, and observed where MPI_Comm_set_name is called; in Open MPI's
 * Fortran bindings only the former.
 */
#include <string.h>

#include "comm.h"
#include "comm_names.h"
#include "library.h"
#include "names.h"
#include "shim.h"

enum { NAME_BYTES = 1024, COMMS_LIMIT = 256 }; /* MPI's own limit is 64 to 256; communicators with a name reported */

static uint32_t numbered;

/* Names that libraries give by themselves report nothing. */
static int is_given(const char *name) {
    return name[0] && strncmp(name, "MPI_COMM_", 9) != 0 && strncmp(name, "MPI COMM", 8) != 0;
}

void tl_comm_name_report(struct tl_comm *comm, const char *name) {
    uint32_t number = TL_LOAD(&comm->number);
    if (!is_given(name)) return;
    if (!number) {
        number = __atomic_add_fetch(&numbered, 1, __ATOMIC_RELAXED);
        if (number > COMMS_LIMIT) return;
        TL_STORE(&comm->number, number);
    }
    uint32_t place = comm->inter || comm->rank < 0 ? UINT32_MAX : (uint32_t)comm->rank;
    tl_name_add(TL_NAME_COMM, number, (uint32_t)comm->size, place, name);
}

void tl_comm_name_look(struct tl_comm *comm) {
    char name[NAME_BYTES] = "";
    int length = 0;
    if (!tl_library.comm_get_name || tl_library.comm_get_name(comm->handle, name, &length) != 0) return;
    name[sizeof name - 1] = '\0';
    tl_comm_name_report(comm, name);
}
