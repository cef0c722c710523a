/*
 * Fortran wrappers, for bindings that call PMPI_X and so pass the C wrappers by. Every argument comes by reference,
 * handles as integers. Only built into the objects of the libraries that have them; if one of those gets into a
 * process of another MPI after all, its Fortran calls pass through to C calls, which count.
 *
 * Open MPI: mpi_x_ serves mpif.h and `use mpi`, mpi_x_f08_ serves `use mpi_f08`.
 * MPICH: only `use mpi_f08` needs any, as the others call MPI_X. There mpi_x_f08_ is an operation without a buffer;
 * one with a buffer is mpi_x_f08ts_, and its buffer comes as a descriptor of ISO_Fortran_binding.h, in which the
 * address stands first. Large counts are mpi_x_f08ts_large_ in MPICH 4.0, where MPI-IO has none, and mpi_x_c_f08ts_ in
 * later ones.
 */
#include "caller_library.h"
#include "clock.h"
#include "comms.h"
#include "form.h"
#include "frames.h"
#include "library.h"
#include "lifecycle.h"
#include "notes.h"
#include "operations.h"
#include "polls.h"
#include "polls_fast_path.h"
#include "regions.h"
#include "releases.h"
#include "shim.h"
#include "stretches.h"
#include "threads.h"
#include "trace_calls.h"
#include "wrappers.h"

#define TL_COUNT_OF_REQUESTS *(const int *)count_f

#define TL_COMMA() ,
#define TL_NOTHING()

#define TL_DECLARE(kind, name) TL_ARGUMENT_##kind(name)
#define TL_PASS(kind, name) TL_PASS_##kind(name)
#define TL_VALUE_comm(name) tl_library.comm_f2c(*(const int *)name##_f)
#define TL_VALUE_int(name) *(const int *)name##_f
/* Before the call, as it is reported while it is open. */
#define TL_HANDLE_OF_COMM(name) tl_handle name = TL_VALUE_comm(name);

/* Arguments that notes use by their names are converted; those that are C addresses already have them. */
#define TL_BY_ADDRESS(name) void *name##_f
#define TL_AS_IT_IS(name) void *name
#define TL_ARGUMENT_cbuf TL_BY_ADDRESS
#define TL_ARGUMENT_buf TL_BY_ADDRESS
#define TL_ARGUMENT_count TL_BY_ADDRESS
#define TL_ARGUMENT_counts TL_AS_IT_IS
#define TL_ARGUMENT_displs TL_AS_IT_IS
#define TL_ARGUMENT_type TL_BY_ADDRESS
#define TL_ARGUMENT_types TL_AS_IT_IS
#define TL_ARGUMENT_op TL_BY_ADDRESS
#define TL_ARGUMENT_comm TL_BY_ADDRESS
#define TL_ARGUMENT_win TL_BY_ADDRESS
#define TL_ARGUMENT_handle TL_BY_ADDRESS
#define TL_ARGUMENT_rank TL_BY_ADDRESS
#define TL_ARGUMENT_integer TL_BY_ADDRESS
#define TL_ARGUMENT_tag TL_BY_ADDRESS
#define TL_ARGUMENT_wide TL_BY_ADDRESS
#define TL_ARGUMENT_text TL_AS_IT_IS
#define TL_ARGUMENT_status TL_AS_IT_IS
#define TL_ARGUMENT_statuses TL_AS_IT_IS
#define TL_ARGUMENT_tested TL_AS_IT_IS
#define TL_ARGUMENT_waited TL_AS_IT_IS
#define TL_ARGUMENT_begun TL_AS_IT_IS
#define TL_ARGUMENT_made TL_AS_IT_IS
#define TL_ARGUMENT_pending TL_AS_IT_IS
#define TL_ARGUMENT_pendings TL_AS_IT_IS
#define TL_ARGUMENT_out TL_AS_IT_IS
#define TL_PASS_BY_ADDRESS(name) name##_f
#define TL_PASS_AS_IT_IS(name) name
#define TL_PASS_cbuf TL_PASS_BY_ADDRESS
#define TL_PASS_buf TL_PASS_BY_ADDRESS
#define TL_PASS_count TL_PASS_BY_ADDRESS
#define TL_PASS_counts TL_PASS_AS_IT_IS
#define TL_PASS_displs TL_PASS_AS_IT_IS
#define TL_PASS_type TL_PASS_BY_ADDRESS
#define TL_PASS_types TL_PASS_AS_IT_IS
#define TL_PASS_op TL_PASS_BY_ADDRESS
#define TL_PASS_comm TL_PASS_BY_ADDRESS
#define TL_PASS_win TL_PASS_BY_ADDRESS
#define TL_PASS_handle TL_PASS_BY_ADDRESS
#define TL_PASS_rank TL_PASS_BY_ADDRESS
#define TL_PASS_integer TL_PASS_BY_ADDRESS
#define TL_PASS_tag TL_PASS_BY_ADDRESS
#define TL_PASS_wide TL_PASS_BY_ADDRESS
#define TL_PASS_text TL_PASS_AS_IT_IS
#define TL_PASS_status TL_PASS_AS_IT_IS
#define TL_PASS_statuses TL_PASS_AS_IT_IS
#define TL_PASS_tested TL_PASS_AS_IT_IS
#define TL_PASS_waited TL_PASS_AS_IT_IS
#define TL_PASS_begun TL_PASS_AS_IT_IS
#define TL_PASS_made TL_PASS_AS_IT_IS
#define TL_PASS_pending TL_PASS_AS_IT_IS
#define TL_PASS_pendings TL_PASS_AS_IT_IS
#define TL_PASS_out TL_PASS_AS_IT_IS

/* The C value of an argument, as the notes in operations.h expect it. */
#define TL_F_cbuf(name) const void *name = c_buffer(tl_form, name##_f); (void)name;
#define TL_F_buf(name)
#define TL_F_count(name) int64_t name = *(const int *)name##_f; (void)name;
#define TL_F_counts(name)
#define TL_F_displs(name)
#define TL_F_type(name) tl_handle name = tl_library.type_f2c(*(const int *)name##_f); (void)name;
#define TL_F_types(name)
#define TL_F_op(name) tl_handle name = *(const int *)name##_f; (void)name;
#define TL_F_comm(name) (void)name;
#define TL_F_win(name) tl_handle name = tl_library.win_f2c(*(const int *)name##_f); (void)name;
#define TL_F_handle(name)
#define TL_F_rank(name) int name = *(const int *)name##_f; (void)name;
#define TL_F_integer(name) int name = *(const int *)name##_f; (void)name;
#define TL_F_tag(name) int name = *(const int *)name##_f; (void)name;
#define TL_F_wide(name) int64_t name = *(const int64_t *)name##_f; (void)name;
#define TL_F_text(name)
#define TL_F_status(name)
#define TL_F_statuses(name)
#define TL_F_tested(name)
#define TL_F_waited(name)
#define TL_F_begun(name)
#define TL_F_made(name)
#define TL_F_pending(name)
#define TL_F_pendings(name)
#define TL_F_out(name)
#define TL_CONVERT(kind, name) TL_F_##kind(name)

static const void *c_buffer(enum tl_form form, const void *argument) {
    const void *buffer = argument;
    if (form >= TL_FORM_F08TS) __builtin_memcpy(&buffer, argument, sizeof buffer);
    return buffer && buffer == tl_library.fortran_in_place ? tl_library.in_place : buffer;
}

/* A Fortran program calls only what its library has; where the next function is missing there is nothing
 * to do, and the error code, which is optional in mpi_f08, says so. */
#define TL_TAKES_ERROR int *error
#define TL_GIVES_ERROR error
/* Texts have their lengths behind all other arguments: as many as any operation has, some may be anything. */
#define TL_TAKES_LENGTHS int *error, size_t length1, size_t length2, size_t length3
#define TL_GIVES_LENGTHS error, length1, length2, length3
#define TL_FORTRAN_BODY(the_form, Name, parameters, note, caller, more) \
        const enum tl_form tl_form = the_form; \
        (void)tl_form; \
        enum { tl_operation = TL_OP_##Name }; \
        void (*next)(parameters(TL_DECLARE, TL_COMMA), TL_TAKES_##more); \
        void *after = tl_next_for(the_form, TL_OP_##Name, caller); \
        if (TL_UNLIKELY(!after)) { \
            if (error) *error = 16; \
            return; \
        } \
        __builtin_memcpy(&next, &after, sizeof next); \
        struct tl_thread *tl_me; \
        if (!TL_LOAD(&tl_recording) || !tl_library.type_f2c || !(tl_me = tl_enter(TL_OP_##Name, TL_FRAME))) { \
            next(parameters(TL_PASS, TL_COMMA), TL_GIVES_##more); \
            return; \
        } \
        const int tl_timed = tl_is_timed(tl_me, TL_OP_##Name), tl_later = tl_looks_later(TL_OP_##Name, tl_timed); \
        (void)tl_later; \
        parameters(TL_BEFORE, TL_NOTHING) \
        TL_TRACE_BEFORE(Name, the_form, parameters) \
        uint64_t tl_start = tl_timed ? tl_call_begin(tl_me) : 0; \
        next(parameters(TL_PASS, TL_COMMA), TL_GIVES_##more); \
        struct tl_call tl_made = {tl_me, TL_OP_##Name, the_form, tl_timed ? tl_call_end(tl_me, tl_start) : 0, 0, tl_start, 0}; \
        struct tl_call *call = &tl_made; \
        if (!error || *error == 0) { \
            parameters(TL_CONVERT, TL_NOTHING) \
            parameters(TL_NOTING, TL_NOTHING) \
            note; \
            parameters(TL_NOTED, TL_NOTHING) \
        } else if (tl_timed) { \
            tl_note_time(call); \
        } \
        TL_TRACE_AFTER(!error || *error == 0) \
        TL_STORE(&tl_me->depth, 0);

#define TL_FORTRAN_WITH(symbol, the_form, Name, parameters, note, more) \
    TL_EXPORT void symbol(parameters(TL_DECLARE, TL_COMMA), TL_TAKES_##more); \
    TL_EXPORT void symbol(parameters(TL_DECLARE, TL_COMMA), TL_TAKES_##more) { \
        TL_FORTRAN_BODY(the_form, Name, parameters, note, TL_CALLER, more) \
    }
#define TL_FORTRAN(symbol, the_form, Name, parameters, note) TL_FORTRAN_WITH(symbol, the_form, Name, parameters, note, ERROR)
#define TL_FORTRAN_TEXT(symbol, the_form, Name, parameters, note) TL_FORTRAN_WITH(symbol, the_form, Name, parameters, note, LENGTHS)

/* Polls have three ways through: polls_fast_path.h. */
#define TL_FORTRAN_WAY(symbol, the_form, Name, parameters, keep, otherwise) \
    TL_POLL_WAY(symbol, the_form, Name, parameters, keep, { otherwise; return; }, \
                void (*tl_following)(parameters(TL_DECLARE, TL_COMMA), int *), \
                tl_following(parameters(TL_PASS, TL_COMMA), error), !error || *error == 0)
#define TL_FORTRAN_POLL(symbol, the_form, Name, parameters, note) \
    static __attribute__((noinline)) void usual_##symbol(parameters(TL_DECLARE, TL_COMMA), int *error, \
                                                         const void *tl_caller) { \
        TL_FORTRAN_BODY(the_form, Name, parameters, note, tl_caller, ERROR) \
    } \
    TL_CAME(symbol, the_form, Name, parameters, note) \
    static __attribute__((noinline)) void other_##symbol(parameters(TL_DECLARE, TL_COMMA), int *error, \
                                                         const void *tl_caller) { \
        TL_FORTRAN_WAY(symbol, the_form, Name, parameters, tl_fast_path_keep, \
                       usual_##symbol(parameters(TL_PASS, TL_COMMA), error, tl_caller)) \
    } \
    TL_EXPORT void symbol(parameters(TL_DECLARE, TL_COMMA), int *error); \
    TL_EXPORT void symbol(parameters(TL_DECLARE, TL_COMMA), int *error) { \
        TL_FORTRAN_WAY(symbol, the_form, Name, parameters, tl_fast_path_keep_same, \
                       TL_OTHERWISE(symbol, Name)(parameters(TL_PASS, TL_COMMA), error, TL_CALLER)) \
    }

#define TL_F77(number, Name, name, parameters, note) \
    TL_FORTRAN(mpi_##name##_, TL_FORM_FORTRAN, Name, parameters, note)
#define TL_F2008(number, Name, name, parameters, note) \
    TL_FORTRAN(mpi_##name##_f08_, TL_FORM_F08, Name, parameters, note)
#define TL_F77_CPTR(number, Name, name, parameters, note) \
    TL_FORTRAN(mpi_##name##_cptr_, TL_FORM_FORTRAN, Name, parameters, note)
#define TL_F77_TEXT(number, Name, name, parameters, note) \
    TL_FORTRAN_TEXT(mpi_##name##_, TL_FORM_FORTRAN, Name, parameters, note)
#define TL_F2008_TEXT(number, Name, name, parameters, note) \
    TL_FORTRAN_TEXT(mpi_##name##_f08_, TL_FORM_F08, Name, parameters, note)
#define TL_F77_POLL(number, Name, name, parameters, note) \
    TL_FORTRAN_POLL(mpi_##name##_, TL_FORM_FORTRAN, Name, parameters, note)
#define TL_F2008_POLL(number, Name, name, parameters, note) \
    TL_FORTRAN_POLL(mpi_##name##_f08_, TL_FORM_F08, Name, parameters, note)
#define TL_F2008TS(number, Name, name, parameters, note) \
    TL_FORTRAN(mpi_##name##_f08ts_, TL_FORM_F08TS, Name, parameters, note)
#define TL_F2008TS_LARGE(number, Name, name, parameters, note) \
    TL_FORTRAN(mpi_##name##_f08ts_large_, TL_FORM_F08TS_LARGE, Name, parameters, note)
#define TL_F2008TS_C(number, Name, name, parameters, note) \
    TL_FORTRAN(mpi_##name##_c_f08ts_, TL_FORM_F08TS_C, Name, parameters, note)

#ifdef TL_MPICH_FORTRAN
TL_COUNTED_OPERATIONS(TL_F2008TS)
TL_COUNTED_OPERATIONS_4(TL_F2008TS)
TL_BUFFERED_OPERATIONS(TL_F2008TS)
TL_BUFFERED_OPERATIONS_4(TL_F2008TS)
TL_PLAIN_OPERATIONS(TL_F2008)
TL_PLAIN_OPERATIONS_4(TL_F2008)
TL_POLLING_OPERATIONS(TL_F2008_POLL)
TL_COUNTED_WITHOUT_BUFFER(TL_F2008)
#undef TL_F_count
#define TL_F_count(name) int64_t name = *(const int64_t *)name##_f; (void)name;
TL_MESSAGES_COUNTED(TL_F2008TS_LARGE)
TL_MESSAGES_COUNTED_4(TL_F2008TS_LARGE)
TL_COLLECTIVES_COUNTED(TL_F2008TS_LARGE)
TL_COLLECTIVES_COUNTED_4(TL_F2008TS_LARGE)
TL_WINDOWS_COUNTED(TL_F2008TS_LARGE)
TL_COUNTED_OPERATIONS(TL_F2008TS_C)
TL_COUNTED_OPERATIONS_4(TL_F2008TS_C)
#else
#define TL_FORTRAN_LISTS(X) TL_COUNTED_OPERATIONS(X) TL_UNCOUNTED_OPERATIONS(X)
TL_FORTRAN_LISTS(TL_F77)
TL_TEXT_OPERATIONS(TL_F77_TEXT)
TL_COUNTED_WITHOUT_BUFFER(TL_F77)
TL_COUNTED_WITHOUT_BUFFER(TL_F77_CPTR) /* of the module mpi, where the address is a C pointer */
TL_FORTRAN_LISTS(TL_F2008)
TL_COUNTED_WITHOUT_BUFFER(TL_F2008)
TL_POLLING_OPERATIONS(TL_F77_POLL)
TL_POLLING_OPERATIONS(TL_F2008_POLL)
#ifdef TL_HAVE_MPI_4
#define TL_FORTRAN_LISTS_4(X) TL_COUNTED_OPERATIONS_4(X) TL_UNCOUNTED_OPERATIONS_4(X)
TL_FORTRAN_LISTS_4(TL_F77)
TL_TEXT_OPERATIONS_4(TL_F77_TEXT)
TL_FORTRAN_LISTS_4(TL_F2008)
#endif
#endif

TL_TEXT_OPERATIONS(TL_F2008_TEXT)
#ifdef TL_HAVE_MPI_4
TL_TEXT_OPERATIONS_4(TL_F2008_TEXT)
#endif

static void *find_or_fail(const char *symbol, int *error, const void *caller) {
    void *found = tl_find_for(symbol, caller);
    if (!found && error) *error = 16;
    return found;
}

static int passed(const int *error) {
    return !error || *error == 0;
}

static void start(const char *symbol, int *error, const void *caller) {
    void (*next)(int *);
    tl_starting();
    void *found = find_or_fail(symbol, error, caller);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    next(error);
    if (passed(error)) tl_started();
}

static void start_thread(const char *symbol, int *required, int *provided, int *error, const void *caller) {
    void (*next)(int *, int *, int *);
    tl_starting();
    void *found = find_or_fail(symbol, error, caller);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    next(required, provided, error);
    if (passed(error)) tl_started();
}

static void finish(const char *symbol, int *error, const void *caller) {
    void (*next)(int *);
    void *found = find_or_fail(symbol, error, caller);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    tl_finishing(TL_FRAME);
    next(error);
    tl_finished();
}

static void free_handle(int operation, enum tl_form form, int *handle, int *error, const void *caller) {
    void (*next)(int *, int *);
    tl_handle (*converted)(int) = operation == TL_OP_Win_free ? tl_library.win_f2c : tl_library.comm_f2c;
    void *found = tl_next_for(form, operation, caller);
    if (!found) {
        if (error) *error = 16;
        return;
    }
    __builtin_memcpy(&next, &found, sizeof next);
    if (!TL_LOAD(&tl_recording) || !converted) {
        next(handle, error);
        return;
    }
    struct tl_release release = tl_release_begin(operation, form, converted(*handle), TL_FRAME);
    next(handle, error);
    tl_release_end(&release);
}

static void pcontrol(const char *symbol, const int *level) {
    void (*next)(const int *);
    void *found = tl_find(symbol);
    tl_region_level(*level);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    next(level);
}

#define TL_FORTRAN_LIFE(suffix) \
    TL_EXPORT void mpi_pcontrol_##suffix(int *level); \
    TL_EXPORT void mpi_pcontrol_##suffix(int *level) { pcontrol("mpi_pcontrol_" #suffix, level); } \
    TL_EXPORT void mpi_init_##suffix(int *error); \
    TL_EXPORT void mpi_init_##suffix(int *error) { start("mpi_init_" #suffix, error, TL_CALLER); } \
    TL_EXPORT void mpi_init_thread_##suffix(int *required, int *provided, int *error); \
    TL_EXPORT void mpi_init_thread_##suffix(int *required, int *provided, int *error) { \
        start_thread("mpi_init_thread_" #suffix, required, provided, error, TL_CALLER); \
    } \
    TL_EXPORT void mpi_finalize_##suffix(int *error); \
    TL_EXPORT void mpi_finalize_##suffix(int *error) { finish("mpi_finalize_" #suffix, error, TL_CALLER); }

#define TL_RELEASE(symbol, the_form, Name) \
    TL_EXPORT void symbol(int *handle, int *error); \
    TL_EXPORT void symbol(int *handle, int *error) { free_handle(TL_OP_##Name, the_form, handle, error, TL_CALLER); }
#define TL_F77_RELEASE(number, Name, name, parameters, note) TL_RELEASE(mpi_##name##_, TL_FORM_FORTRAN, Name)
#define TL_F2008_RELEASE(number, Name, name, parameters, note) TL_RELEASE(mpi_##name##_f08_, TL_FORM_F08, Name)

#ifndef TL_MPICH_FORTRAN
TL_FORTRAN_LIFE()
TL_FREEING_OPERATIONS(TL_F77_RELEASE)
#endif
TL_FORTRAN_LIFE(f08_)
TL_FREEING_OPERATIONS(TL_F2008_RELEASE)

#ifdef TL_HAVE_MPI_4
static void start_session(const char *symbol, int *info, int *handler, int *session, int *error,
                          const void *caller) {
    void (*next)(int *, int *, int *, int *);
    tl_starting();
    void *found = find_or_fail(symbol, error, caller);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    next(info, handler, session, error);
    if (passed(error)) tl_session_started(tl_library_session(*session));
}

static void finish_session(const char *symbol, int *session, int *error, const void *caller) {
    void (*next)(int *, int *);
    void *found = find_or_fail(symbol, error, caller);
    if (!found) return;
    __builtin_memcpy(&next, &found, sizeof next);
    tl_session_finishing();
    next(session, error);
}

#define TL_FORTRAN_SESSION(suffix) \
    TL_EXPORT void mpi_session_init_##suffix(int *info, int *handler, int *session, int *error); \
    TL_EXPORT void mpi_session_init_##suffix(int *info, int *handler, int *session, int *error) { \
        start_session("mpi_session_init_" #suffix, info, handler, session, error, TL_CALLER); \
    } \
    TL_EXPORT void mpi_session_finalize_##suffix(int *session, int *error); \
    TL_EXPORT void mpi_session_finalize_##suffix(int *session, int *error) { \
        finish_session("mpi_session_finalize_" #suffix, session, error, TL_CALLER); \
    }

#ifndef TL_MPICH_FORTRAN
TL_FORTRAN_SESSION()
#endif
TL_FORTRAN_SESSION(f08_)
#endif
