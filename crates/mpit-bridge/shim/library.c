/*
 * The MPI library of this process: where its functions are and which family it belongs to. Found by symbol,
 * never by name or by a header's layout. A wrapper's next function is the next MPI_X in link order, so that
 * other interposed tools still see the call; the shim's own queries go to PMPI_X, so that they do not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "library.h"

#define EVENLY 0x9e3779b97f4a7c15u /* 2^64 by the golden ratio: for addresses, whose distances are not known */
struct tl_library tl_library = {.handle_mask = UINT64_MAX, .handle_bytes = 8, .thread_multiple = 3,
                               .fortran_first_index = 1, .request_spread = EVENLY};

struct search {
    const char *symbol;
    void *found;
};

/* The shim is an object called *mpi* too, and must not find itself. */
static int is_own(const struct dl_phdr_info *info) {
    Dl_info own;
    return dladdr(&tl_library, &own) != 0 && (uintptr_t)own.dli_fbase == (uintptr_t)info->dlpi_addr;
}

/* Looks into one loaded object. Opening with RTLD_NOLOAD only takes a reference, which is retained: the
 * functions found must stay. Objects not called lib*mpi* are passed over, as programs load thousands. */
static int search_object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash, "/lib", 4) != 0 || !strstr(slash, "mpi") || is_own(info)) return 0;
    void *object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!object) return 0;
    search->found = dlsym(object, search->symbol);
    if (search->found) return 1;
    dlclose(object);
    return 0;
}

static void *search_objects(const char *symbol) {
    struct search search = {symbol, NULL};
    dl_iterate_phdr(search_object, &search);
    return search.found;
}

/* A symbol of the MPI library. RTLD_NEXT fails where the library was loaded RTLD_LOCAL, as mpi4py does. */
void *tl_find(const char *symbol) {
    void *found = dlsym(RTLD_NEXT, symbol);
    return found ? found : search_objects(symbol);
}

/* Functions have to be copied out of dlsym's data pointers by value: ISO C has no cast for it. */
static int bind_function(void *target, const char *symbol) {
    void *found = tl_find(symbol);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

/* Copy relocations move the world communicator into the program itself, so the global scope is queried first. */
void *tl_find_data(const char *symbol) {
    void *found = dlsym(RTLD_DEFAULT, symbol);
    return found ? found : search_objects(symbol);
}

/* The MPI-5 ABI has constants of its own; a library offering it answers with a version above 0. */
static int is_standard_abi(void) {
    int (*abi_version)(int *, int *);
    int major = 0, minor = 0;
    if (!bind_function(&abi_version, "MPI_Abi_get_version")) return 0;
    return abi_version(&major, &minor) == 0 && major > 0;
}

/* Constants as the libraries' ABIs have them for good: Open MPI's since 4.0 (addresses of objects), MPICH's since
 * 3.1 (numbers of 32 bits), and the standard one of MPI 5.0 (appendix A: small numbers as addresses). */
static void is_open_mpi(struct tl_library *l, void *world) {
    l->family = TL_FAMILY_OPENMPI;
    l->comm_world = (tl_handle)world;
    l->in_place = (const void *)1;
    l->fortran_in_place = tl_find_data("mpi_fortran_in_place_");
    l->root = -4;
    l->type_null = (tl_handle)tl_find_data("ompi_mpi_datatype_null");
    l->topology_cart = 1;
    l->topology_graph = 2;
    l->topology_dist_graph = 3;
    l->request_null = (tl_handle)tl_find_data("ompi_request_null");
    l->request_empty = (tl_handle)tl_find_data("ompi_request_empty");
    l->byte = (tl_handle)tl_find_data("ompi_mpi_byte");
    l->no_op = (tl_handle)tl_find_data("ompi_mpi_op_no_op");
    l->fortran_status_ignore = tl_find_data("mpi_fortran_status_ignore_");
    l->fortran_statuses_ignore = tl_find_data("mpi_fortran_statuses_ignore_");
    l->status_bytes = 24;
    l->bind_none = 0;
    l->bind_comm = 1;
    l->pvar_class_first = 0;
}

/* MPICH's requests: a number from 0 in the low 12 bits (blocks use 1,024 or 256 of those), blocks from bit 12 on, pools from bit 20
 * on (mpir_objects.h). The highest 11 bits of the product are the place: five neighbours share two buckets of 8, so that only as much
 * of the table is touched as is used, the next block of 1,024 comes to lie beside the one before, and pools lie elsewhere. */
#define REQUESTS_IN_TURN ((2ull << 53) / 5 + (165ull << 38))

/* MPICH's handles are the same numbers in C and in Fortran. */
static tl_handle same_number(int handle) {
    return handle;
}

static void is_mpich(struct tl_library *l) {
    l->family = TL_FAMILY_MPICH;
    l->handle_mask = UINT32_MAX;
    l->handle_bytes = 4;
    l->request_spread = REQUESTS_IN_TURN;
    l->comm_world = 0x44000000;
    l->in_place = (const void *)-1; /* NOLINT: MPICH's own constant */
    l->root = -3;
    l->type_null = 0x0c000000;
    l->topology_graph = 1;
    l->topology_cart = 2;
    l->topology_dist_graph = 3;
    l->request_null = 0x2c000000;
    l->byte = 0x4c00010d;
    l->no_op = 0x5800000e;
    l->status_ignore = (const void *)1;
    /* Those of mpi_f08; mpif.h and `use mpi` come here as calls from C. */
    l->fortran_in_place = tl_find_data("MPIR_F08_MPI_IN_PLACE");
    l->fortran_status_ignore = tl_find_data("MPIR_F08_MPI_STATUS_IGNORE_OBJ");
    l->fortran_statuses_ignore = tl_find_data("MPIR_F08_MPI_STATUSES_IGNORE_OBJ");
    l->comm_f2c = l->type_f2c = l->win_f2c = l->op_f2c = l->request_f2c = same_number;
    l->status_bytes = 20;
    l->bind_none = 9700;
    l->bind_comm = 9701;
    l->pvar_class_first = 240;
}

static void is_abi(struct tl_library *l) {
    l->family = TL_FAMILY_ABI;
    l->comm_world = 0x101;
    l->in_place = (const void *)1;
    l->root = -4;
    l->type_null = 0x200;
    l->topology_cart = 211;
    l->topology_graph = 212;
    l->topology_dist_graph = 213;
    l->request_null = l->request_empty = 0x180;
    l->byte = 0x247;
    l->no_op = 0x3d;
    l->status_bytes = 32;
    l->thread_multiple = 4096;
    l->bind_none = 1;
    l->bind_comm = 2;
    l->pvar_class_first = 1;
}

static void find_family(void) {
    void *world = tl_find_data("ompi_mpi_comm_world");
    if (world) is_open_mpi(&tl_library, world);
    else if (is_standard_abi()) is_abi(&tl_library);
    else is_mpich(&tl_library);
}

int tl_library_handle_bytes(void) {
    if (tl_library.family == TL_FAMILY_UNKNOWN) find_family();
    return tl_library.handle_bytes;
}

tl_handle tl_library_session(int number) {
    tl_handle (*convert)(int);
    if (tl_library_handle_bytes() == 4) return number;
    return bind_function(&convert, "PMPI_Session_f2c") ? convert(number) : 0;
}

static int query(void *unused, void *status) {
    (void)unused;
    memset(status, 0, (size_t)tl_library.status_bytes);
    return 0;
}
static int let_go(void *unused) {
    (void)unused;
    return 0;
}
static int give_up(void *unused, int complete) {
    (void)unused;
    (void)complete;
    return 0;
}

/* MPICH 4.0's mpi_f08 counts requests from 0, as in C, later ones from 1: so the first of one is looked up,
 * by a request that nobody communicates with. */
static void learn_first_index(struct tl_library *l) {
    void (*waitany)(const int *, int *, int *, const void *, int *);
    int (*begin)(int (*)(void *, void *), int (*)(void *), int (*)(void *, int), void *, int *);
    int (*complete)(int);
    int request, index = -1, error = 0;
    const int one = 1;
    if (!bind_function(&waitany, "pmpir_waitany_f08_") || !bind_function(&begin, "PMPI_Grequest_start") ||
        !bind_function(&complete, "PMPI_Grequest_complete"))
        return;
    if (begin(query, let_go, give_up, NULL, &request) != 0 || complete(request) != 0) return;
    waitany(&one, &request, &index, l->fortran_status_ignore, &error);
    if (error == 0 && (index == 0 || index == 1)) l->fortran_first_index = index;
}

int tl_library_open(void) {
    struct tl_library *l = &tl_library;
    if (l->family == TL_FAMILY_UNKNOWN) find_family();
    int complete = bind_function(&l->comm_rank, "PMPI_Comm_rank") &&
                   bind_function(&l->comm_size, "PMPI_Comm_size") &&
                   bind_function(&l->comm_remote_size, "PMPI_Comm_remote_size") &&
                   bind_function(&l->comm_test_inter, "PMPI_Comm_test_inter") &&
                   bind_function(&l->comm_group, "PMPI_Comm_group") &&
                   bind_function(&l->comm_remote_group, "PMPI_Comm_remote_group") &&
                   bind_function(&l->group_translate_ranks, "PMPI_Group_translate_ranks") &&
                   bind_function(&l->group_free, "PMPI_Group_free") &&
                   bind_function(&l->type_size, "PMPI_Type_size") &&
                   bind_function(&l->query_thread, "PMPI_Query_thread");
    bind_function(&l->comm_get_name, "PMPI_Comm_get_name");
    bind_function(&l->type_size_x, "PMPI_Type_size_x");
    bind_function(&l->comm_get_name, "PMPI_Comm_get_name");
    bind_function(&l->win_get_group, "PMPI_Win_get_group");
    bind_function(&l->group_size, "PMPI_Group_size");
    bind_function(&l->group_from_session_pset, "PMPI_Group_from_session_pset");
    bind_function(&l->group_rank, "PMPI_Group_rank");
    bind_function(&l->test_cancelled, "PMPI_Test_cancelled");
    bind_function(&l->get_elements_x, "PMPI_Get_elements_x");
    bind_function(&l->status_set_elements_x, "PMPI_Status_set_elements_x");
    bind_function(&l->topo_test, "PMPI_Topo_test");
    bind_function(&l->cartdim_get, "PMPI_Cartdim_get");
    bind_function(&l->cart_shift, "PMPI_Cart_shift");
    bind_function(&l->graph_neighbors_count, "PMPI_Graph_neighbors_count");
    bind_function(&l->graph_neighbors, "PMPI_Graph_neighbors");
    bind_function(&l->dist_graph_neighbors_count, "PMPI_Dist_graph_neighbors_count");
    bind_function(&l->dist_graph_neighbors, "PMPI_Dist_graph_neighbors");
    bind_function(&l->get_library_version, "PMPI_Get_library_version");
    if (l->family == TL_FAMILY_OPENMPI)
        complete = complete && bind_function(&l->comm_f2c, "PMPI_Comm_f2c") &&
                   bind_function(&l->type_f2c, "PMPI_Type_f2c") && bind_function(&l->win_f2c, "PMPI_Win_f2c") &&
                   bind_function(&l->op_f2c, "PMPI_Op_f2c") && bind_function(&l->request_f2c, "PMPI_Request_f2c");
    if (complete && l->family == TL_FAMILY_MPICH) learn_first_index(l);
    return complete;
}

/* First line of the library's own description. MPICH's may have 8,192 characters. */
const char *tl_library_version(void) {
    static char text[8448];
    int length = 0;
    if (!tl_library.get_library_version || tl_library.get_library_version(text, &length) != 0) return "";
    text[sizeof text - 1] = '\0';
    for (char *c = text; *c; c++) {
        if (*c == '\t') *c = ' ';
        if (*c == '\n') {
            *c = '\0';
            break;
        }
    }
    return text;
}
