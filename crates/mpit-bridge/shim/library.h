/*
 * Facts about the MPI library in this process, found by library.c: its constants, and the functions that the shim calls
 * itself. Those are PMPI_X, so that interposed tools see none of it.
 */
#ifndef THROUGHLINE_LIBRARY_H
#define THROUGHLINE_LIBRARY_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef intptr_t tl_handle; /* a register as it came, see shim.h */

enum tl_family { TL_FAMILY_UNKNOWN, TL_FAMILY_OPENMPI, TL_FAMILY_MPICH, TL_FAMILY_ABI };
struct tl_library {
    enum tl_family family;
    uint64_t handle_mask;
    tl_handle comm_world;
    const void *in_place;
    const void *fortran_in_place;
    int fortran_first_index; /* of an array, as the library's own Fortran functions say it */
    int root; /* MPI_ROOT */
    tl_handle type_null; /* MPI_DATATYPE_NULL */
    int topology_graph, topology_cart, topology_dist_graph;
    tl_handle request_null, request_empty, byte, no_op;
    const void *status_ignore, *fortran_status_ignore, *fortran_statuses_ignore;
    uint64_t request_spread; /* the highest bits of a handle times this are its place in the table of requests */
    int status_bytes;
    int handle_bytes;
    int thread_multiple;                  /* MPI_THREAD_MULTIPLE */
    int bind_none, bind_comm;             /* MPI_T_BIND_NO_OBJECT, MPI_T_BIND_MPI_COMM */
    int pvar_class_first;                 /* MPI_T_PVAR_CLASS_STATE; the others follow in one order everywhere */
    int (*comm_rank)(tl_handle, int *);
    int (*comm_size)(tl_handle, int *);
    int (*comm_get_name)(tl_handle, char *, int *);
    int (*comm_remote_size)(tl_handle, int *);
    int (*comm_test_inter)(tl_handle, int *);
    int (*comm_group)(tl_handle, void *);
    int (*comm_remote_group)(tl_handle, void *);
    int (*group_translate_ranks)(tl_handle, int, const int *, tl_handle, int *);
    int (*group_free)(void *);
    int (*type_size)(tl_handle, int *);
    int (*type_size_x)(tl_handle, int64_t *);
    int (*query_thread)(int *);
    int (*get_library_version)(char *, int *);
    tl_handle (*comm_f2c)(int);
    tl_handle (*type_f2c)(int);
    tl_handle (*win_f2c)(int);
    tl_handle (*op_f2c)(int);
    tl_handle (*request_f2c)(int);
    int (*win_get_group)(tl_handle, void *);
    int (*group_size)(tl_handle, int *);
    int (*group_from_session_pset)(tl_handle, const char *, void *);
    int (*group_rank)(tl_handle, int *);
    int (*test_cancelled)(const void *, int *);
    int (*get_elements_x)(const void *, tl_handle, int64_t *);
    int (*status_set_elements_x)(void *, tl_handle, int64_t);
    int (*topo_test)(tl_handle, int *);
    int (*cartdim_get)(tl_handle, int *);
    int (*cart_shift)(tl_handle, int, int, int *, int *);
    int (*graph_neighbors_count)(tl_handle, int, int *);
    int (*graph_neighbors)(tl_handle, int, int, int *);
    int (*dist_graph_neighbors_count)(tl_handle, int *, int *, int *);
    int (*dist_graph_neighbors)(tl_handle, int, int *, int *, int, int *, int *);
};

extern struct tl_library tl_library;

void *tl_find(const char *symbol);
void *tl_find_data(const char *symbol);
int tl_library_open(void);
/* Bytes of a handle, of whatever library this is. */
int tl_library_handle_bytes(void);
/* The C handle of a session that Fortran knows by this number; 0: the library does not report. */
tl_handle tl_library_session(int number);
const char *tl_library_version(void);

static inline tl_handle tl_same(tl_handle handle) {
    return (tl_handle)((uint64_t)handle & tl_library.handle_mask);
}

#pragma GCC visibility pop

#endif
