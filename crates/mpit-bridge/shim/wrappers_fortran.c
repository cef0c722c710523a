/*
 * Fortran wrappers for Open MPI, whose Fortran bindings call PMPI_X and so pass the C wrappers by
 * (MPICH's call MPI_X and need none). mpi_x_ serves mpif.h and `use mpi`, mpi_x_f08_ serves `use mpi_f08`:
 * in Open MPI both pass every argument by reference, handles as integers. Only built into its object; if
 * that gets into a process of another MPI after all, its Fortran calls pass through to C calls, which count.
 */
#include "clock.h"
#include "shim.h"

#define TL_COMMA() ,

#define TL_DECLARE(kind, name) void *name##_f
#define TL_PASS(kind, name) name##_f

/* The C value of an argument, as the notes in operations.h expect it. */
#define TL_F_cbuf(name) const void *name = c_buffer(name##_f); (void)name;
#define TL_F_buf(name)
#define TL_F_count(name) int64_t name = *(const int *)name##_f; (void)name;
#define TL_F_counts(name) const void *name = name##_f; (void)name;
#define TL_F_displs(name)
#define TL_F_type(name) tl_handle name = tl_library.type_f2c(*(const int *)name##_f); (void)name;
#define TL_F_types(name) const void *name = name##_f; (void)name;
#define TL_F_op(name)
#define TL_F_comm(name) tl_handle name = tl_library.comm_f2c(*(const int *)name##_f); (void)name;
#define TL_F_rank(name) int name = *(const int *)name##_f; (void)name;
#define TL_F_integer(name)
#define TL_F_out(name)
#define TL_CONVERT(kind, name) TL_F_##kind(name)
#define TL_NOTHING()

static const void *c_buffer(const void *buffer) {
    return buffer && buffer == tl_library.fortran_in_place ? tl_library.in_place : buffer;
}

/* A Fortran program calls only what its library has; where the next function is missing there is nothing
 * to do, and the error code, which is optional in mpi_f08, says so. */
#define TL_FORTRAN(symbol, the_form, Name, parameters, note) \
    TL_EXPORT void symbol(parameters(TL_DECLARE, TL_COMMA), int *error); \
    TL_EXPORT void symbol(parameters(TL_DECLARE, TL_COMMA), int *error) { \
        void (*next)(parameters(TL_DECLARE, TL_COMMA), int *); \
        void *found = tl_next(the_form, TL_OP_##Name); \
        if (TL_UNLIKELY(!found)) { \
            if (error) *error = 16; \
            return; \
        } \
        __builtin_memcpy(&next, &found, sizeof next); \
        struct tl_thread *self; \
        if (!TL_LOAD(&tl_recording) || !tl_library.type_f2c || !(self = tl_enter())) { \
            next(parameters(TL_PASS, TL_COMMA), error); \
            return; \
        } \
        uint64_t start = tl_ticks(); \
        next(parameters(TL_PASS, TL_COMMA), error); \
        struct tl_call made = {self, TL_OP_##Name, the_form, tl_ticks() - start}; \
        const struct tl_call *call = &made; \
        if (!error || *error == 0) { \
            parameters(TL_CONVERT, TL_NOTHING) \
            note; \
        } \
        self->depth = 0; \
    }

#define TL_F77(Name, name, parameters, note) TL_FORTRAN(mpi_##name##_, TL_FORM_FORTRAN, Name, parameters, note)
#define TL_F2008(Name, name, parameters, note) TL_FORTRAN(mpi_##name##_f08_, TL_FORM_F08, Name, parameters, note)
TL_OPERATIONS(TL_F77)
TL_OPERATIONS(TL_F2008)

static void *find_or_fail(const char *symbol, int *error) {
    void *found = tl_find(symbol);
    if (!found && error) *error = 16;
    return found;
}

static int passed(const int *error) {
    return !error || *error == 0;
}

static void start(const char *symbol, int *error) {
    void (*next)(int *);
    void *found = find_or_fail(symbol, error);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    next(error);
    if (passed(error)) tl_started();
}

static void start_thread(const char *symbol, int *required, int *provided, int *error) {
    void (*next)(int *, int *, int *);
    void *found = find_or_fail(symbol, error);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    next(required, provided, error);
    if (passed(error)) tl_started();
}

static void finish(const char *symbol, int *error) {
    void (*next)(int *);
    void *found = find_or_fail(symbol, error);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    tl_finishing();
    next(error);
}

static void release(const char *symbol, int *comm, int *error) {
    void (*next)(int *, int *);
    void *found = find_or_fail(symbol, error);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    if (TL_LOAD(&tl_recording) && tl_library.comm_f2c) tl_comm_forget(tl_library.comm_f2c(*comm));
    next(comm, error);
}

#define TL_FORTRAN_LIFE(suffix) \
    TL_EXPORT void mpi_init_##suffix(int *error); \
    TL_EXPORT void mpi_init_##suffix(int *error) { start("mpi_init_" #suffix, error); } \
    TL_EXPORT void mpi_init_thread_##suffix(int *required, int *provided, int *error); \
    TL_EXPORT void mpi_init_thread_##suffix(int *required, int *provided, int *error) { \
        start_thread("mpi_init_thread_" #suffix, required, provided, error); \
    } \
    TL_EXPORT void mpi_finalize_##suffix(int *error); \
    TL_EXPORT void mpi_finalize_##suffix(int *error) { finish("mpi_finalize_" #suffix, error); } \
    TL_EXPORT void mpi_comm_free_##suffix(int *comm, int *error); \
    TL_EXPORT void mpi_comm_free_##suffix(int *comm, int *error) { release("mpi_comm_free_" #suffix, comm, error); } \
    TL_EXPORT void mpi_comm_disconnect_##suffix(int *comm, int *error); \
    TL_EXPORT void mpi_comm_disconnect_##suffix(int *comm, int *error) { \
        release("mpi_comm_disconnect_" #suffix, comm, error); \
    }

TL_FORTRAN_LIFE()
TL_FORTRAN_LIFE(f08_)
