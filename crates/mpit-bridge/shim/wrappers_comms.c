/*
 * Calls that make communicators, followed in trace mode only: so that each gets a name that all its members find
 * (comm_ids.c). Arguments are passed on as they came, each in a register or a slot of its own; only the parent and
 * the address of what is made are looked at.
 */
#include "caller_library.h"
#include "comm_ids.h"
#include "frames.h"
#include "library.h"
#include "shim.h"
#include "threads.h"
#include "trace.h"

enum { NO_SUCH_FUNCTION = 16 };

static void followed(tl_handle parent, tl_handle made) {
    struct tl_thread *self = tl_enter(TL_NO_CALL, TL_FRAME);
    if (!self) return;
    tl_comm_made(self, parent, made);
    self->depth = 0;
}

static tl_handle handle_at(intptr_t address) {
    const void *place = (const void *)address;
    return tl_library.handle_bytes == 8 ? *(const tl_handle *)place : *(const int *)place;
}

static void *next_of(void **known, const char *symbol, const void *caller) {
    void *found = __atomic_load_n(known, __ATOMIC_ACQUIRE);
    if (!found) {
        found = tl_find_for(symbol, caller);
        __atomic_store_n(known, found, __ATOMIC_RELEASE);
    }
    return found;
}

#define I intptr_t
#define DECLARED_2 I a, I b
#define DECLARED_3 DECLARED_2, I c
#define DECLARED_4 DECLARED_3, I d
#define DECLARED_5 DECLARED_4, I e
#define DECLARED_6 DECLARED_5, I f
#define DECLARED_9 DECLARED_6, I g, I h, I i
#define DECLARED_10 DECLARED_9, I j
#define PASSED_2 a, b
#define PASSED_3 PASSED_2, c
#define PASSED_4 PASSED_3, d
#define PASSED_5 PASSED_4, e
#define PASSED_6 PASSED_5, f
#define PASSED_9 PASSED_6, g, h, i
#define PASSED_10 PASSED_9, j

#define C_MAKER(Name, name, number, made) \
    TL_EXPORT int MPI_##Name(DECLARED_##number); \
    TL_EXPORT int MPI_##Name(DECLARED_##number) { \
        static void *known; \
        int (*next)(DECLARED_##number); \
        void *found = next_of(&known, "MPI_" #Name, TL_CALLER); \
        if (!found) return NO_SUCH_FUNCTION; \
        __builtin_memcpy(&next, &found, sizeof next); \
        int status = next(PASSED_##number); \
        if (TL_UNLIKELY(TL_LOAD(&tl_tracing)) && status == 0) followed(a, handle_at(made)); \
        return status; \
    }

/* What every library has since MPI 3. MPI_Comm_idup is not here: its communicator may not be looked at before
 * it is complete, so that it has no name. */
#define LIST(X) \
    X(Comm_dup, comm_dup, 2, b) \
    X(Comm_dup_with_info, comm_dup_with_info, 3, c) \
    X(Comm_create, comm_create, 3, c) \
    X(Comm_create_group, comm_create_group, 4, d) \
    X(Comm_split, comm_split, 4, d) \
    X(Comm_split_type, comm_split_type, 5, e) \
    X(Cart_create, cart_create, 6, f) \
    X(Cart_sub, cart_sub, 3, c) \
    X(Graph_create, graph_create, 6, f) \
    X(Dist_graph_create, dist_graph_create, 9, i) \
    X(Dist_graph_create_adjacent, dist_graph_create_adjacent, 10, j) \
    X(Intercomm_create, intercomm_create, 6, f) \
    X(Intercomm_merge, intercomm_merge, 3, c)

LIST(C_MAKER)

#if defined(TL_OPENMPI_FORTRAN) || defined(TL_MPICH_FORTRAN)
/* Fortran: every argument by reference, handles as integers, the error last. */
static tl_handle fortran_handle_at(intptr_t address) {
    return tl_library.comm_f2c(*(const int *)address);
}

#define F_MAKER(symbol, number, made) \
    TL_EXPORT void symbol(DECLARED_##number, int *error); \
    TL_EXPORT void symbol(DECLARED_##number, int *error) { \
        static void *known; \
        void (*next)(DECLARED_##number, int *); \
        void *found = next_of(&known, #symbol, TL_CALLER); \
        if (!found) { \
            if (error) *error = NO_SUCH_FUNCTION; \
            return; \
        } \
        __builtin_memcpy(&next, &found, sizeof next); \
        next(PASSED_##number, error); \
        if (TL_UNLIKELY(TL_LOAD(&tl_tracing)) && tl_library.comm_f2c && (!error || *error == 0)) \
            followed(fortran_handle_at(a), fortran_handle_at(made)); \
    }
#define F77_MAKER(Name, name, number, made) F_MAKER(mpi_##name##_, number, made)
#define F08_MAKER(Name, name, number, made) F_MAKER(mpi_##name##_f08_, number, made)
#ifdef TL_OPENMPI_FORTRAN
LIST(F77_MAKER)
#endif
LIST(F08_MAKER)
#endif
