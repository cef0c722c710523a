/*
 * MPI_Finalize, however it is called. A tool that is linked into the program has an MPI_Finalize of its own and
 * goes on with PMPI_Finalize: the shim's wrapper then is never called, and its thread would read performance
 * variables of a library that has gone. MPI deletes the attributes of MPI_COMM_SELF first in MPI_Finalize (MPI-4.1,
 * 11.2.4), so one of them is the shim's. It must not fail MPI_Finalize: the callback always answers success.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "finalize_hook.h"
#include "library.h"

enum { MPICH_COMM_SELF = 0x44000001, ABI_COMM_SELF = 0x102 };

/* A copy of MPI_COMM_SELF does not take the attribute along. */
static int not_copied(tl_handle comm, int key, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return 0;
}

static void (*when_finalizing)(void);

static int deleted(tl_handle comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    when_finalizing();
    return 0;
}

static tl_handle comm_self(void) {
    if (tl_library.family == TL_FAMILY_MPICH) return MPICH_COMM_SELF;
    if (tl_library.family == TL_FAMILY_ABI) return ABI_COMM_SELF;
    if (tl_library.family != TL_FAMILY_OPENMPI) return 0;
    void *self = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self"); /* may have moved into the program */
    return (tl_handle)(self ? self : tl_find("ompi_mpi_comm_self"));
}

typedef int copy_function(tl_handle, int, void *, void *, void *, int *);
typedef int delete_function(tl_handle, int, void *, void *);

static int find(void *target, const char *symbol) {
    void *found = tl_find(symbol);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

void tl_finalize_hook_register(void (*finalizing)(void)) {
    when_finalizing = finalizing;
    int (*create)(copy_function *, delete_function *, int *, void *);
    int (*set)(tl_handle, int, void *);
    int (*free_key)(int *);
    tl_handle self = comm_self();
    int key = 0;
    if (!self || !find(&create, "PMPI_Comm_create_keyval") || !find(&set, "PMPI_Comm_set_attr") ||
        !find(&free_key, "PMPI_Comm_free_keyval"))
        return;
    if (create(not_copied, deleted, &key, NULL) != 0) return;
    set(self, key, NULL);
    free_key(&key); /* marked only: it goes with the attribute */
}
