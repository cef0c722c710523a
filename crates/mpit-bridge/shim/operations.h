/*
 * The one table of wrapped MPI operations. Everything else about an operation (its C, large-count and
 * Fortran wrappers, its number on the wire, its name) is generated from here by macro expansion.
 * It must not include mpi.h: only the order and the kind of the arguments are known, never a layout.
 *
 * A parameter list is a macro F(P, _): P(kind, name) for each parameter, _() between two. The kinds are
 *   cbuf buf      const and non-const buffer        count   one element count
 *   counts        array of counts                   displs  array of displacements
 *   type types    one datatype, array of datatypes  op comm handles
 *   rank integer  a rank, any other int             out     a pointer the shim never looks through
 *
 * X(Name, name, PARAMETERS, note): `note` is the accounting call made after the operation returned
 * successfully; it may use the parameters by name, and `call`.
 *
 * Numbers on the wire follow from the order in each of the two lists: only append, never reorder or remove.
 */
#ifndef THROUGHLINE_OPERATIONS_H
#define THROUGHLINE_OPERATIONS_H

#define TL_SEND(P, _) \
    P(cbuf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, dest) _() P(integer, tag) _() P(comm, comm)
#define TL_ISEND(P, _) TL_SEND(P, _) _() P(out, request)
#define TL_IRECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, source) _() P(integer, tag) _() \
    P(comm, comm) _() P(out, request)
#define TL_RECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, source) _() P(integer, tag) _() \
    P(comm, comm) _() P(out, status)
#define TL_MRECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(out, message) _() P(out, result)
#define TL_SENDRECV(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(rank, dest) _() P(integer, sendtag) _() \
    P(buf, recvbuf) _() P(count, recvcount) _() P(type, recvtype) _() P(rank, source) _() \
    P(integer, recvtag) _() P(comm, comm) _() P(out, status)
#define TL_SENDRECV_REPLACE(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, dest) _() P(integer, sendtag) _() \
    P(rank, source) _() P(integer, recvtag) _() P(comm, comm) _() P(out, status)

#define TL_BCAST(P, _) \
    P(buf, buffer) _() P(count, count) _() P(type, datatype) _() P(rank, root) _() P(comm, comm)
#define TL_ALLREDUCE(P, _) \
    P(cbuf, sendbuf) _() P(buf, recvbuf) _() P(count, count) _() P(type, datatype) _() P(op, op) _() P(comm, comm)
#define TL_REDUCE(P, _) \
    P(cbuf, sendbuf) _() P(buf, recvbuf) _() P(count, count) _() P(type, datatype) _() P(op, op) _() \
    P(rank, root) _() P(comm, comm)
#define TL_REDUCE_SCATTER(P, _) \
    P(cbuf, sendbuf) _() P(buf, recvbuf) _() P(counts, recvcounts) _() P(type, datatype) _() P(op, op) _() \
    P(comm, comm)
#define TL_ALLGATHER(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(buf, recvbuf) _() \
    P(count, recvcount) _() P(type, recvtype) _() P(comm, comm)
#define TL_GATHER(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(buf, recvbuf) _() \
    P(count, recvcount) _() P(type, recvtype) _() P(rank, root) _() P(comm, comm)
#define TL_GATHERV(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(buf, recvbuf) _() \
    P(counts, recvcounts) _() P(displs, displs) _() P(type, recvtype) _() P(rank, root) _() P(comm, comm)
#define TL_SCATTERV(P, _) \
    P(cbuf, sendbuf) _() P(counts, sendcounts) _() P(displs, displs) _() P(type, sendtype) _() \
    P(buf, recvbuf) _() P(count, recvcount) _() P(type, recvtype) _() P(rank, root) _() P(comm, comm)
#define TL_ALLGATHERV(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(buf, recvbuf) _() \
    P(counts, recvcounts) _() P(displs, displs) _() P(type, recvtype) _() P(comm, comm)
#define TL_ALLTOALLV(P, _) \
    P(cbuf, sendbuf) _() P(counts, sendcounts) _() P(displs, sdispls) _() P(type, sendtype) _() \
    P(buf, recvbuf) _() P(counts, recvcounts) _() P(displs, rdispls) _() P(type, recvtype) _() P(comm, comm)
/* MPI_Ialltoallw's displacements are ints in bytes; its large-count form takes MPI_Aint, as the others do. */
#define TL_ALLTOALLW(P, _) \
    P(cbuf, sendbuf) _() P(counts, sendcounts) _() P(displs, sdispls) _() P(types, sendtypes) _() \
    P(buf, recvbuf) _() P(counts, recvcounts) _() P(displs, rdispls) _() P(types, recvtypes) _() P(comm, comm)

#define TL_IBCAST(P, _) TL_BCAST(P, _) _() P(out, request)
#define TL_IALLREDUCE(P, _) TL_ALLREDUCE(P, _) _() P(out, request)
#define TL_IREDUCE(P, _) TL_REDUCE(P, _) _() P(out, request)
#define TL_IREDUCE_SCATTER(P, _) TL_REDUCE_SCATTER(P, _) _() P(out, request)
#define TL_IALLGATHER(P, _) TL_ALLGATHER(P, _) _() P(out, request)
#define TL_IGATHER(P, _) TL_GATHER(P, _) _() P(out, request)
#define TL_IGATHERV(P, _) TL_GATHERV(P, _) _() P(out, request)
#define TL_ISCATTERV(P, _) TL_SCATTERV(P, _) _() P(out, request)
#define TL_IALLGATHERV(P, _) TL_ALLGATHERV(P, _) _() P(out, request)
#define TL_IALLTOALLV(P, _) TL_ALLTOALLV(P, _) _() P(out, request)
#define TL_IALLTOALLW(P, _) TL_ALLTOALLW(P, _) _() P(out, request)

#define TL_BARRIER(P, _) P(comm, comm)
#define TL_IBARRIER(P, _) P(comm, comm) _() P(out, request)
#define TL_WAIT(P, _) P(out, request) _() P(out, status)
#define TL_WAITALL(P, _) P(integer, count) _() P(out, requests) _() P(out, statuses)
#define TL_WAITANY(P, _) P(integer, count) _() P(out, requests) _() P(out, index) _() P(out, status)
#define TL_WAITSOME(P, _) \
    P(integer, incount) _() P(out, requests) _() P(out, outcount) _() P(out, indices) _() P(out, statuses)
#define TL_TEST(P, _) P(out, request) _() P(out, flag) _() P(out, status)
#define TL_TESTALL(P, _) P(integer, count) _() P(out, requests) _() P(out, flag) _() P(out, statuses)
#define TL_TESTANY(P, _) \
    P(integer, count) _() P(out, requests) _() P(out, index) _() P(out, flag) _() P(out, status)
#define TL_PROBE(P, _) P(rank, source) _() P(integer, tag) _() P(comm, comm) _() P(out, status)
#define TL_IPROBE(P, _) \
    P(rank, source) _() P(integer, tag) _() P(comm, comm) _() P(out, flag) _() P(out, status)

#define TL_NOTE_SEND tl_note_message(call, count, datatype, dest, comm)
#define TL_NOTE_RECV tl_note_receive(call, count, datatype)
#define TL_NOTE_BCAST tl_note_bcast(call, count, datatype, root, comm)
#define TL_NOTE_ALLREDUCE tl_note_allreduce(call, count, datatype, comm)
#define TL_NOTE_REDUCE tl_note_reduce(call, count, datatype, root, comm)
#define TL_NOTE_SCAN tl_note_scan(call, count, datatype, comm)
#define TL_NOTE_GATHER tl_note_gather(call, sendbuf, sendcount, sendtype, recvcount, recvtype, root, comm)
#define TL_NOTE_GATHERV tl_note_gatherv(call, sendbuf, sendcount, sendtype, recvcounts, recvtype, root, comm)
#define TL_NOTE_SCATTER tl_note_scatter(call, sendcount, sendtype, recvcount, recvtype, root, comm)
#define TL_NOTE_SCATTERV tl_note_scatterv(call, sendcounts, sendtype, recvcount, recvtype, root, comm)
#define TL_NOTE_ALLGATHER tl_note_allgather(call, sendbuf, sendcount, sendtype, recvcount, recvtype, comm)
#define TL_NOTE_ALLGATHERV tl_note_allgatherv(call, sendbuf, sendcount, sendtype, recvcounts, recvtype, comm)
#define TL_NOTE_ALLTOALL tl_note_alltoall(call, sendbuf, sendcount, sendtype, recvcount, recvtype, comm)
#define TL_NOTE_ALLTOALLV tl_note_alltoallv(call, sendbuf, sendcounts, sendtype, recvcounts, recvtype, comm)
#define TL_NOTE_ALLTOALLW tl_note_alltoallw(call, sendbuf, sendcounts, sendtypes, recvcounts, recvtypes, comm)
#define TL_NOTE_REDUCE_SCATTER tl_note_reduce_scatter(call, recvcounts, datatype, comm)
#define TL_NOTE_REDUCE_SCATTER_BLOCK tl_note_reduce_scatter_block(call, count, datatype, comm)
#define TL_NOTE_SENDRECV tl_note_message(call, sendcount, sendtype, dest, comm)
#define TL_NOTE_BARRIER tl_note_barrier(call, comm)
#define TL_NOTE_TIME tl_note_time(call)

/* Operations with counts: these have large-count forms (MPI_X_c) in MPI 4. */
#define TL_COUNTED_OPERATIONS(X) \
    X(Send, send, TL_SEND, TL_NOTE_SEND) \
    X(Bsend, bsend, TL_SEND, TL_NOTE_SEND) \
    X(Ssend, ssend, TL_SEND, TL_NOTE_SEND) \
    X(Rsend, rsend, TL_SEND, TL_NOTE_SEND) \
    X(Isend, isend, TL_ISEND, TL_NOTE_SEND) \
    X(Ibsend, ibsend, TL_ISEND, TL_NOTE_SEND) \
    X(Issend, issend, TL_ISEND, TL_NOTE_SEND) \
    X(Irsend, irsend, TL_ISEND, TL_NOTE_SEND) \
    X(Recv, recv, TL_RECV, TL_NOTE_RECV) \
    X(Irecv, irecv, TL_IRECV, TL_NOTE_RECV) \
    X(Mrecv, mrecv, TL_MRECV, TL_NOTE_RECV) \
    X(Imrecv, imrecv, TL_MRECV, TL_NOTE_RECV) \
    X(Sendrecv, sendrecv, TL_SENDRECV, TL_NOTE_SENDRECV) \
    X(Sendrecv_replace, sendrecv_replace, TL_SENDRECV_REPLACE, TL_NOTE_SEND) \
    X(Bcast, bcast, TL_BCAST, TL_NOTE_BCAST) \
    X(Ibcast, ibcast, TL_IBCAST, TL_NOTE_BCAST) \
    X(Allreduce, allreduce, TL_ALLREDUCE, TL_NOTE_ALLREDUCE) \
    X(Iallreduce, iallreduce, TL_IALLREDUCE, TL_NOTE_ALLREDUCE) \
    X(Reduce, reduce, TL_REDUCE, TL_NOTE_REDUCE) \
    X(Ireduce, ireduce, TL_IREDUCE, TL_NOTE_REDUCE) \
    X(Scan, scan, TL_ALLREDUCE, TL_NOTE_SCAN) \
    X(Iscan, iscan, TL_IALLREDUCE, TL_NOTE_SCAN) \
    X(Exscan, exscan, TL_ALLREDUCE, TL_NOTE_SCAN) \
    X(Iexscan, iexscan, TL_IALLREDUCE, TL_NOTE_SCAN) \
    X(Gather, gather, TL_GATHER, TL_NOTE_GATHER) \
    X(Igather, igather, TL_IGATHER, TL_NOTE_GATHER) \
    X(Gatherv, gatherv, TL_GATHERV, TL_NOTE_GATHERV) \
    X(Igatherv, igatherv, TL_IGATHERV, TL_NOTE_GATHERV) \
    X(Scatter, scatter, TL_GATHER, TL_NOTE_SCATTER) \
    X(Iscatter, iscatter, TL_IGATHER, TL_NOTE_SCATTER) \
    X(Scatterv, scatterv, TL_SCATTERV, TL_NOTE_SCATTERV) \
    X(Iscatterv, iscatterv, TL_ISCATTERV, TL_NOTE_SCATTERV) \
    X(Allgather, allgather, TL_ALLGATHER, TL_NOTE_ALLGATHER) \
    X(Iallgather, iallgather, TL_IALLGATHER, TL_NOTE_ALLGATHER) \
    X(Allgatherv, allgatherv, TL_ALLGATHERV, TL_NOTE_ALLGATHERV) \
    X(Iallgatherv, iallgatherv, TL_IALLGATHERV, TL_NOTE_ALLGATHERV) \
    X(Alltoall, alltoall, TL_ALLGATHER, TL_NOTE_ALLTOALL) \
    X(Ialltoall, ialltoall, TL_IALLGATHER, TL_NOTE_ALLTOALL) \
    X(Alltoallv, alltoallv, TL_ALLTOALLV, TL_NOTE_ALLTOALLV) \
    X(Ialltoallv, ialltoallv, TL_IALLTOALLV, TL_NOTE_ALLTOALLV) \
    X(Alltoallw, alltoallw, TL_ALLTOALLW, TL_NOTE_ALLTOALLW) \
    X(Ialltoallw, ialltoallw, TL_IALLTOALLW, TL_NOTE_ALLTOALLW) \
    X(Reduce_scatter, reduce_scatter, TL_REDUCE_SCATTER, TL_NOTE_REDUCE_SCATTER) \
    X(Ireduce_scatter, ireduce_scatter, TL_IREDUCE_SCATTER, TL_NOTE_REDUCE_SCATTER) \
    X(Reduce_scatter_block, reduce_scatter_block, TL_ALLREDUCE, TL_NOTE_REDUCE_SCATTER_BLOCK) \
    X(Ireduce_scatter_block, ireduce_scatter_block, TL_IALLREDUCE, TL_NOTE_REDUCE_SCATTER_BLOCK)

/* Operations without counts: one C form each. */
#define TL_UNCOUNTED_OPERATIONS(X) \
    X(Barrier, barrier, TL_BARRIER, TL_NOTE_BARRIER) \
    X(Ibarrier, ibarrier, TL_IBARRIER, TL_NOTE_BARRIER) \
    X(Wait, wait, TL_WAIT, TL_NOTE_TIME) \
    X(Waitall, waitall, TL_WAITALL, TL_NOTE_TIME) \
    X(Waitany, waitany, TL_WAITANY, TL_NOTE_TIME) \
    X(Waitsome, waitsome, TL_WAITSOME, TL_NOTE_TIME) \
    X(Test, test, TL_TEST, TL_NOTE_TIME) \
    X(Testall, testall, TL_TESTALL, TL_NOTE_TIME) \
    X(Testany, testany, TL_TESTANY, TL_NOTE_TIME) \
    X(Testsome, testsome, TL_WAITSOME, TL_NOTE_TIME) \
    X(Probe, probe, TL_PROBE, TL_NOTE_TIME) \
    X(Iprobe, iprobe, TL_IPROBE, TL_NOTE_TIME)

#define TL_OPERATIONS(X) TL_COUNTED_OPERATIONS(X) TL_UNCOUNTED_OPERATIONS(X)

/* Numbers on the wire. Each list has room to grow at its end; a number is never given to another operation. */
enum tl_operation {
    TL_NO_OPERATION = 0,
#define TL_ENUM(Name, name, parameters, note) TL_OP_##Name,
    TL_COUNTED_OPERATIONS(TL_ENUM)
    TL_COUNTED_END,
    TL_UNCOUNTED_START = 127,
    TL_UNCOUNTED_OPERATIONS(TL_ENUM)
#undef TL_ENUM
    TL_OPERATION_END
};
enum { TL_OPERATION_LIMIT = 192 };
_Static_assert((int)TL_COUNTED_END <= (int)TL_UNCOUNTED_START, "the counted operations grew into the uncounted");
_Static_assert((int)TL_OPERATION_END <= (int)TL_OPERATION_LIMIT, "more operations than a thread's table holds");

#endif
