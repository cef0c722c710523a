/*
 * The one table of wrapped MPI operations, by family in operations_*.h. Everything else about an operation (its
 * C, large-count and Fortran wrappers, its number on the wire, its name) is generated from it by macro expansion.
 * It must not include mpi.h: only the order and the kind of the arguments are known, never a layout.
 *
 * A parameter list is a macro F(P, _): P(kind, name) for each parameter, _() between two. The kinds are
 *   cbuf buf        const and non-const buffer        count    one element count
 *   counts          array of counts                   displs   array of displacements
 *   type types      one datatype, array of datatypes  op comm win   handles; `handle`: others, and what is only passed on
 *   rank integer    a rank, any other int             wide     MPI_Aint, MPI_Count or MPI_Offset
 *   status statuses what the shim reads itself: its own are used where the program passes IGNORE
 *   waited          a status of a call with `pending` or `pendings`, which stands before it
 *   tested          the statuses of MPI_Testall
 *   begun made      a request that the call begins; a persistent one that it makes
 *   pending, count + pendings   requests that it waits for, tests, starts or frees
 *   text            characters                        out      a pointer the shim never looks through
 *
 * X(number, Name, name, PARAMETERS, note): `number` stands on the wire for ever; a new operation takes the next
 * free one. `note` is the accounting made after the operation returned successfully; it may use the parameters
 * by name, and `call`.
 *
 * Lists ending in _4 are new in MPI 4: only objects for libraries that have them export them.
 */
#ifndef THROUGHLINE_OPERATIONS_H
#define THROUGHLINE_OPERATIONS_H

#include "operations_collectives.h"
#include "operations_communicators.h"
#include "operations_files.h"
#include "operations_messages.h"
#include "operations_windows.h"

/* Operations with counts: these have large-count forms (MPI_X_c) in MPI 4. Numbers from 1, next: 124. */
#define TL_COUNTED_OPERATIONS(X) \
    TL_MESSAGES_COUNTED(X) TL_COLLECTIVES_COUNTED(X) TL_WINDOWS_COUNTED(X) TL_WINDOWS_CREATED(X) TL_FILES_COUNTED(X)
#define TL_COUNTED_WITHOUT_BUFFER(X) TL_WINDOWS_ALLOCATED(X)
#define TL_COUNTED_OPERATIONS_4(X) TL_MESSAGES_COUNTED_4(X) TL_COLLECTIVES_COUNTED_4(X)

/* Operations without: one C form each. Numbers from 128, next: 212. Those that take a buffer all the same are in
 * lists of their own, as MPICH's Fortran 2008 has another kind of name for them. */
#define TL_BUFFERED_OPERATIONS(X) TL_WINDOWS_BUFFERED(X) TL_FILES_BUFFERED(X)
#define TL_BUFFERED_OPERATIONS_4(X) TL_MESSAGES_BUFFERED_4(X)
#define TL_PLAIN_OPERATIONS(X) \
    TL_MESSAGES_PLAIN(X) TL_COLLECTIVES_UNCOUNTED(X) TL_COMMUNICATORS_PLAIN(X) TL_WINDOWS_PLAIN(X) TL_FILES_PLAIN(X)
#define TL_PLAIN_OPERATIONS_4(X) TL_MESSAGES_PLAIN_4(X) TL_COLLECTIVES_UNCOUNTED_4(X)
#define TL_UNCOUNTED_OPERATIONS(X) TL_BUFFERED_OPERATIONS(X) TL_PLAIN_OPERATIONS(X)
/* Plain ones too, with wrappers of their own kind. */
#define TL_POLLING_OPERATIONS(X) TL_MESSAGES_POLLS(X)
#define TL_TEXT_OPERATIONS(X) TL_COMMUNICATORS_TEXT(X) TL_FILES_TEXT(X)
#define TL_TEXT_OPERATIONS_4(X) TL_COMMUNICATORS_TEXT_4(X)
#define TL_FREEING_OPERATIONS(X) TL_COMMUNICATORS_FREED(X) TL_WINDOWS_FREED(X)
#define TL_UNCOUNTED_OPERATIONS_4(X) TL_BUFFERED_OPERATIONS_4(X) TL_PLAIN_OPERATIONS_4(X)

/* One that has no wrapper of this kind: it is recorded by lifecycle.c. */
#define TL_NO_PARAMETERS(P, SEP)
#define TL_ENDING_OPERATIONS(X) \
    X(181, Finalize, finalize, TL_NO_PARAMETERS, )

#define TL_OPERATIONS(X) \
    TL_COUNTED_OPERATIONS(X) TL_COUNTED_OPERATIONS_4(X) \
    TL_UNCOUNTED_OPERATIONS(X) TL_UNCOUNTED_OPERATIONS_4(X) TL_POLLING_OPERATIONS(X) TL_COUNTED_WITHOUT_BUFFER(X) \
    TL_TEXT_OPERATIONS(X) TL_TEXT_OPERATIONS_4(X) TL_FREEING_OPERATIONS(X) TL_ENDING_OPERATIONS(X)

enum tl_operation {
    TL_NO_OPERATION = 0,
#define TL_ENUM(number, Name, name, parameters, note) TL_OP_##Name = number,
    TL_OPERATIONS(TL_ENUM)
#undef TL_ENUM
};
enum { TL_COUNTED_LIMIT = 128, TL_OPERATION_LIMIT = 256 };
#define TL_CHECK(number, Name, name, parameters, note) \
    _Static_assert((number) > 0 && (number) < TL_COUNTED_LIMIT, "a number of the operations with counts");
TL_COUNTED_OPERATIONS(TL_CHECK)
TL_COUNTED_OPERATIONS_4(TL_CHECK)
TL_COUNTED_WITHOUT_BUFFER(TL_CHECK)
#undef TL_CHECK
#define TL_CHECK(number, Name, name, parameters, note) \
    _Static_assert((number) >= TL_COUNTED_LIMIT && (number) < TL_OPERATION_LIMIT, "a number of those without");
TL_UNCOUNTED_OPERATIONS(TL_CHECK)
TL_UNCOUNTED_OPERATIONS_4(TL_CHECK)
TL_POLLING_OPERATIONS(TL_CHECK)
TL_TEXT_OPERATIONS(TL_CHECK)
TL_TEXT_OPERATIONS_4(TL_CHECK)
TL_FREEING_OPERATIONS(TL_CHECK)
TL_ENDING_OPERATIONS(TL_CHECK)
#undef TL_CHECK

#endif
