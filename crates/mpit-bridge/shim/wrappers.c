/*
 * The wrappers that programs call instead of MPI's functions, generated from operations.h. A wrapper does
 * three things: call the next function, note what it sent, return its result. It must never fail where the
 * function itself would not, nor take a decision of its own.
 */
#include <limits.h>

#include "caller_library.h"
#include "clock.h"
#include "comm.h"
#include "comm_names.h"
#include "comms.h"
#include "form.h"
#include "frames.h"
#include "library.h"
#include "lifecycle.h"
#include "operations.h"
#include "polls.h"
#include "polls_fast_path.h"
#include "program_tool.h"
#include "regions.h"
#include "releases.h"
#include "shim.h"
#include "stretches.h"
#include "threads.h"
#include "tool.h"
#include "trace_calls.h"
#include "wrappers.h"

#define TL_COUNT_OF_REQUESTS count

/* MPI_ERR_OTHER of both families is at least 15; this is returned only where the library lacks a function
 * that the program calls, which the dynamic linker would not have let pass without the shim. */
enum { NO_SUCH_FUNCTION = 16 };

#define TL_COMMA() ,
#define TL_NOTHING()

/* Parameters as declared in C: handles travel as whole registers, see shim.h. */
#define TL_C_cbuf(name) const void *name
#define TL_C_buf(name) void *name
#define TL_C_count(name) int name
#define TL_C_counts(name) const void *name
#define TL_C_displs(name) const void *name
#define TL_C_type(name) tl_handle name
#define TL_C_types(name) const void *name
#define TL_C_op(name) tl_handle name
#define TL_C_comm(name) tl_handle name
#define TL_C_win(name) tl_handle name
#define TL_C_handle(name) tl_handle name
#define TL_C_rank(name) int name
#define TL_C_integer(name) int name
#define TL_C_tag(name) int name
#define TL_C_wide(name) int64_t name
#define TL_C_text(name) const char *name
#define TL_C_status(name) void *name
#define TL_C_statuses(name) void *name
#define TL_C_tested(name) void *name
#define TL_C_waited(name) void *name
#define TL_C_begun(name) void *name
#define TL_C_made(name) void *name
#define TL_C_pending(name) void *name
#define TL_C_pendings(name) void *name
#define TL_C_out(name) void *name
#define TL_DECLARE(kind, name) TL_C_##kind(name)
#define TL_PASS(kind, name) name
#define TL_VALUE_comm(name) name
#define TL_HANDLE_OF_COMM(name)
#define TL_VALUE_int(name) name

#define TL_WRAPPER_BODY(the_form, Name, parameters, note, caller, without) \
        const enum tl_form tl_form = the_form; \
        (void)tl_form; \
        enum { tl_operation = TL_OP_##Name }; \
        int (*tl_following)(parameters(TL_DECLARE, TL_COMMA)); \
        void *tl_after = tl_next_for(the_form, TL_OP_##Name, caller); \
        if (TL_UNLIKELY(!tl_after)) return without; \
        __builtin_memcpy(&tl_following, &tl_after, sizeof tl_following); \
        struct tl_thread *tl_me; \
        if (!TL_LOAD(&tl_recording) || !(tl_me = tl_enter(TL_OP_##Name, TL_FRAME))) return tl_following(parameters(TL_PASS, TL_COMMA)); \
        const int tl_timed = tl_is_timed(tl_me, TL_OP_##Name), tl_later = tl_looks_later(TL_OP_##Name, tl_timed); \
        (void)tl_later; \
        parameters(TL_BEFORE, TL_NOTHING) \
        TL_TRACE_BEFORE(Name, the_form, parameters) \
        uint64_t tl_start = tl_timed ? tl_call_begin(tl_me) : 0; \
        int tl_status = tl_following(parameters(TL_PASS, TL_COMMA)); \
        struct tl_call tl_made = {tl_me, TL_OP_##Name, the_form, tl_timed ? tl_call_end(tl_me, tl_start) : 0, 0, tl_start, 0}; \
        struct tl_call *call = &tl_made; \
        if (TL_LIKELY(tl_status == 0)) { \
            parameters(TL_NOTING, TL_NOTHING) \
            note; \
            parameters(TL_NOTED, TL_NOTHING) \
        } else if (tl_timed) { \
            tl_note_time(call); \
        } \
        TL_TRACE_AFTER(tl_status == 0) \
        TL_STORE(&tl_me->depth, 0); \
        return tl_status;

#define TL_WRAPPER(symbol, the_form, Name, parameters, note) \
    TL_EXPORT int symbol(parameters(TL_DECLARE, TL_COMMA)); \
    TL_EXPORT int symbol(parameters(TL_DECLARE, TL_COMMA)) { \
        TL_WRAPPER_BODY(the_form, Name, parameters, note, TL_CALLER, NO_SUCH_FUNCTION) \
    }

/* Polls have three ways through: polls_fast_path.h. */
#define TL_C_WAY(symbol, the_form, Name, parameters, keep, otherwise) \
    TL_POLL_WAY(symbol, the_form, Name, parameters, keep, return otherwise, \
                int (*tl_following)(parameters(TL_DECLARE, TL_COMMA)), \
                int tl_status = tl_following(parameters(TL_PASS, TL_COMMA)), tl_status == 0) \
    return tl_status;
#define TL_POLL_WRAPPER(symbol, the_form, Name, parameters, note) \
    static __attribute__((noinline)) int usual_##symbol(parameters(TL_DECLARE, TL_COMMA), const void *tl_caller) { \
        TL_WRAPPER_BODY(the_form, Name, parameters, note, tl_caller, NO_SUCH_FUNCTION) \
    } \
    TL_CAME(symbol, the_form, Name, parameters, note) \
    static __attribute__((noinline)) int other_##symbol(parameters(TL_DECLARE, TL_COMMA), const void *tl_caller) { \
        TL_C_WAY(symbol, the_form, Name, parameters, tl_fast_path_keep, \
                 usual_##symbol(parameters(TL_PASS, TL_COMMA), tl_caller)) \
    } \
    TL_EXPORT int symbol(parameters(TL_DECLARE, TL_COMMA)); \
    TL_EXPORT int symbol(parameters(TL_DECLARE, TL_COMMA)) { \
        TL_C_WAY(symbol, the_form, Name, parameters, tl_fast_path_keep_same, \
                 TL_OTHERWISE(symbol, Name)(parameters(TL_PASS, TL_COMMA), TL_CALLER)) \
    }

#define TL_C_WRAPPER(number, Name, name, parameters, note) \
    TL_WRAPPER(MPI_##Name, TL_FORM_C, Name, parameters, note)
TL_COUNTED_OPERATIONS(TL_C_WRAPPER)
TL_UNCOUNTED_OPERATIONS(TL_C_WRAPPER)
TL_COUNTED_WITHOUT_BUFFER(TL_C_WRAPPER)
TL_TEXT_OPERATIONS(TL_C_WRAPPER)
#define TL_C_POLL(number, Name, name, parameters, note) \
    TL_POLL_WRAPPER(MPI_##Name, TL_FORM_C, Name, parameters, note)
TL_POLLING_OPERATIONS(TL_C_POLL)
#ifdef TL_HAVE_MPI_4
TL_COUNTED_OPERATIONS_4(TL_C_WRAPPER)
TL_UNCOUNTED_OPERATIONS_4(TL_C_WRAPPER)
TL_TEXT_OPERATIONS_4(TL_C_WRAPPER)
#endif

/* Large-count forms: only where every MPI that the object is made for has them (mpi4py tests for them). */
#ifdef TL_HAVE_LARGE_COUNTS
#undef TL_C_count
#define TL_C_count(name) int64_t name

/* Where the library lacks one (absent.c), the call of an int's counts does the same, if they fit: with arrays of counts they do not. */
#define TL_FITS_count(name) &&name >= INT_MIN && name <= INT_MAX
#define TL_FITS_counts(name) &&0
#define TL_FITS_displs(name) &&0
#define TL_FITS_cbuf(name)
#define TL_FITS_buf(name)
#define TL_FITS_type(name)
#define TL_FITS_types(name)
#define TL_FITS_op(name)
#define TL_FITS_comm(name)
#define TL_FITS_win(name)
#define TL_FITS_handle(name)
#define TL_FITS_rank(name)
#define TL_FITS_integer(name)
#define TL_FITS_tag(name)
#define TL_FITS_wide(name)
#define TL_FITS_text(name)
#define TL_FITS_status(name)
#define TL_FITS_statuses(name)
#define TL_FITS_tested(name)
#define TL_FITS_waited(name)
#define TL_FITS_begun(name)
#define TL_FITS_made(name)
#define TL_FITS_pending(name)
#define TL_FITS_pendings(name)
#define TL_FITS_out(name)
#define TL_FITS(kind, name) TL_FITS_##kind(name)
#define TL_AS_INT_count(name) (int)name
#define TL_AS_INT_cbuf(name) name
#define TL_AS_INT_buf(name) name
#define TL_AS_INT_counts(name) name
#define TL_AS_INT_displs(name) name
#define TL_AS_INT_type(name) name
#define TL_AS_INT_types(name) name
#define TL_AS_INT_op(name) name
#define TL_AS_INT_comm(name) name
#define TL_AS_INT_win(name) name
#define TL_AS_INT_handle(name) name
#define TL_AS_INT_rank(name) name
#define TL_AS_INT_integer(name) name
#define TL_AS_INT_tag(name) name
#define TL_AS_INT_wide(name) name
#define TL_AS_INT_text(name) name
#define TL_AS_INT_status(name) name
#define TL_AS_INT_statuses(name) name
#define TL_AS_INT_tested(name) name
#define TL_AS_INT_waited(name) name
#define TL_AS_INT_begun(name) name
#define TL_AS_INT_made(name) name
#define TL_AS_INT_pending(name) name
#define TL_AS_INT_pendings(name) name
#define TL_AS_INT_out(name) name
#define TL_AS_INT(kind, name) TL_AS_INT_##kind(name)
#define TL_LARGE_WRAPPER(number, Name, name, parameters, note) \
    TL_EXPORT int MPI_##Name##_c(parameters(TL_DECLARE, TL_COMMA)); \
    TL_EXPORT int MPI_##Name##_c(parameters(TL_DECLARE, TL_COMMA)) { \
        TL_WRAPPER_BODY(TL_FORM_LARGE, Name, parameters, note, TL_CALLER, \
                        1 parameters(TL_FITS, TL_NOTHING) ? MPI_##Name(parameters(TL_AS_INT, TL_COMMA)) : NO_SUCH_FUNCTION) \
    }
TL_COUNTED_OPERATIONS(TL_LARGE_WRAPPER)
TL_COUNTED_OPERATIONS_4(TL_LARGE_WRAPPER)
TL_COUNTED_WITHOUT_BUFFER(TL_LARGE_WRAPPER)
#endif

/* ---- start, end, and communicators that go away ---- */

static int next_void(const char *symbol, const void *caller) {
    int (*next)(void);
    void *found = tl_find_for(symbol, caller);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    return next();
}

TL_EXPORT int MPI_Init(int *argc, char ***argv);
TL_EXPORT int MPI_Init(int *argc, char ***argv) {
    int (*next)(int *, char ***);
    tl_starting();
    void *found = tl_find_for("MPI_Init", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    int status = next(argc, argv);
    if (status == 0) tl_started();
    return status;
}

TL_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
TL_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int (*next)(int *, char ***, int, int *);
    tl_starting();
    void *found = tl_find_for("MPI_Init_thread", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    int status = next(argc, argv, required, provided);
    if (status == 0) tl_started();
    return status;
}

/* Programs with a tool of their own inside start MPI so (program_tool.c): the rank is there, though what the tool wraps is not counted.
 * All others come here from within MPI_Init. */
TL_EXPORT int PMPI_Init(int *argc, char ***argv);
TL_EXPORT int PMPI_Init(int *argc, char ***argv) {
    int (*next)(int *, char ***);
    void *found = tl_find_for("PMPI_Init", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    int status = next(argc, argv);
    if (status == 0 && tl_program_starts_mpi()) tl_started();
    return status;
}

TL_EXPORT int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);
TL_EXPORT int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int (*next)(int *, char ***, int, int *);
    void *found = tl_find_for("PMPI_Init_thread", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    int status = next(argc, argv, required, provided);
    if (status == 0 && tl_program_starts_mpi()) tl_started();
    return status;
}

TL_EXPORT int MPI_Finalize(void);
TL_EXPORT int MPI_Finalize(void) {
    tl_finishing(TL_FRAME);
    int status = next_void("MPI_Finalize", TL_CALLER);
    tl_finished();
    return status;
}

/* What the shim itself does with MPI_T changes nothing of what the program gets: see tool.c. */
TL_EXPORT int MPI_T_init_thread(int required, int *provided);
TL_EXPORT int MPI_T_init_thread(int required, int *provided) {
    int (*next)(int, int *);
    void *found = tl_find_for("MPI_T_init_thread", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    return tl_tool_program_init(next, required, provided);
}

TL_EXPORT int MPI_T_finalize(void);
TL_EXPORT int MPI_T_finalize(void) {
    int (*next)(void);
    void *found = tl_find_for("MPI_T_finalize", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    return tl_tool_program_finalize(next);
}

/* A handle behind an address. Before the library is known, its width is queried from the library. */
static tl_handle tl_handle_at(const void *handle) {
    return tl_library_handle_bytes() == 8 ? *(const tl_handle *)handle : *(const int *)handle;
}

static int free_at(int operation, void *handle, const void *caller) {
    int (*next)(void *);
    void *found = tl_next_for(TL_FORM_C, operation, caller);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    if (!TL_LOAD(&tl_recording) || !handle) return next(handle);
    struct tl_release release = tl_release_begin(operation, TL_FORM_C, tl_handle_at(handle), TL_FRAME);
    int status = next(handle);
    tl_release_end(&release);
    return status;
}

/* MPI leaves its meaning to tools, and what follows the level too: that is handed on as far as registers hold it, for
 * tools that want it, and not looked at. */
TL_EXPORT int MPI_Pcontrol(int level, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e);
TL_EXPORT int MPI_Pcontrol(int level, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e) {
    int (*next)(int, ...);
    void *found = tl_find_for("MPI_Pcontrol", TL_CALLER);
    tl_region_level(level);
    if (!found) return 0;
    __builtin_memcpy(&next, &found, sizeof next);
    return next(level, a, b, c, d, e);
}

static void name_comm(tl_handle handle, const char *name) {
    struct tl_thread *self = tl_enter(TL_NO_CALL, TL_FRAME);
    if (!self) return;
    struct tl_comm *comm = tl_comm_find(self, handle);
    if (comm && name) tl_comm_name_report(comm, name);
    self->depth = 0;
}

TL_EXPORT int MPI_Comm_set_name(tl_handle comm, const char *name);
TL_EXPORT int MPI_Comm_set_name(tl_handle comm, const char *name) {
    int (*next)(tl_handle, const char *);
    void *found = tl_find_for("MPI_Comm_set_name", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    int status = next(comm, name);
    if (status == 0 && TL_LOAD(&tl_recording)) name_comm(comm, name);
    return status;
}

TL_EXPORT int MPI_Comm_free(void *comm);
TL_EXPORT int MPI_Comm_free(void *comm) {
    return free_at(TL_OP_Comm_free, comm, TL_CALLER);
}

TL_EXPORT int MPI_Comm_disconnect(void *comm);
TL_EXPORT int MPI_Comm_disconnect(void *comm) {
    return free_at(TL_OP_Comm_disconnect, comm, TL_CALLER);
}

TL_EXPORT int MPI_Win_free(void *window);
TL_EXPORT int MPI_Win_free(void *window) {
    return free_at(TL_OP_Win_free, window, TL_CALLER);
}

/* ---- sessions ---- */

#ifdef TL_HAVE_MPI_4
TL_EXPORT int MPI_Session_init(tl_handle info, tl_handle handler, void *session);
TL_EXPORT int MPI_Session_init(tl_handle info, tl_handle handler, void *session) {
    int (*next)(tl_handle, tl_handle, void *);
    tl_starting();
    void *found = tl_find_for("MPI_Session_init", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    int status = next(info, handler, session);
    /* Which library it is, and so how wide its handles are, is known only after the first start. */
    if (status == 0) tl_session_started(tl_handle_at(session));
    return status;
}

TL_EXPORT int MPI_Session_finalize(void *session);
TL_EXPORT int MPI_Session_finalize(void *session) {
    int (*next)(void *);
    void *found = tl_find_for("MPI_Session_finalize", TL_CALLER);
    if (!found) return NO_SUCH_FUNCTION;
    __builtin_memcpy(&next, &found, sizeof next);
    tl_session_finishing();
    return next(session);
}
#endif
