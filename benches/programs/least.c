/* The least that a tool between a program and MPI does: each of these functions counts its calls and calls the next one.
 * What the shim costs beyond this is its own; what this costs, any tool does. */
#include <mpi.h>

static __thread volatile long calls __attribute__((tls_model("initial-exec"))); /* no call to find it */

#define LEAST(name, parameters, arguments) \
    int MPI_##name parameters { \
        calls++; \
        return PMPI_##name arguments; \
    }

LEAST(Send, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
LEAST(Recv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s), (b, n, t, from, tag, c, s))
LEAST(Isend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, to, tag, c, r))
LEAST(Irecv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, from, tag, c, r))
LEAST(Sendrecv,
      (const void *sb, int sn, MPI_Datatype st, int to, int stag, void *rb, int rn, MPI_Datatype rt, int from, int rtag,
       MPI_Comm c, MPI_Status *s),
      (sb, sn, st, to, stag, rb, rn, rt, from, rtag, c, s))
LEAST(Wait, (MPI_Request * r, MPI_Status *s), (r, s))
LEAST(Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
LEAST(Test, (MPI_Request * r, int *flag, MPI_Status *s), (r, flag, s))
LEAST(Testany, (int n, MPI_Request r[], int *index, int *flag, MPI_Status *s), (n, r, index, flag, s))
LEAST(Testall, (int n, MPI_Request r[], int *flag, MPI_Status s[]), (n, r, flag, s))
LEAST(Iprobe, (int from, int tag, MPI_Comm c, int *flag, MPI_Status *s), (from, tag, c, flag, s))
LEAST(Allreduce, (const void *sb, void *rb, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (sb, rb, n, t, o, c))
