/*
 * Collective operations, blocking, immediate and persistent, and those between neighbours: their part of the
 * table in operations.h, which explains it.
 */
#ifndef THROUGHLINE_OPERATIONS_COLLECTIVES_H
#define THROUGHLINE_OPERATIONS_COLLECTIVES_H

#define TL_BARRIER(P, _) P(comm, comm)
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

#define TL_IBARRIER(P, _) TL_BARRIER(P, _) _() P(begun, request)
#define TL_IBCAST(P, _) TL_BCAST(P, _) _() P(begun, request)
#define TL_IALLREDUCE(P, _) TL_ALLREDUCE(P, _) _() P(begun, request)
#define TL_IREDUCE(P, _) TL_REDUCE(P, _) _() P(begun, request)
#define TL_IREDUCE_SCATTER(P, _) TL_REDUCE_SCATTER(P, _) _() P(begun, request)
#define TL_IALLGATHER(P, _) TL_ALLGATHER(P, _) _() P(begun, request)
#define TL_IGATHER(P, _) TL_GATHER(P, _) _() P(begun, request)
#define TL_IGATHERV(P, _) TL_GATHERV(P, _) _() P(begun, request)
#define TL_ISCATTERV(P, _) TL_SCATTERV(P, _) _() P(begun, request)
#define TL_IALLGATHERV(P, _) TL_ALLGATHERV(P, _) _() P(begun, request)
#define TL_IALLTOALLV(P, _) TL_ALLTOALLV(P, _) _() P(begun, request)
#define TL_IALLTOALLW(P, _) TL_ALLTOALLW(P, _) _() P(begun, request)

#define TL_BARRIER_INIT(P, _) TL_BARRIER(P, _) _() P(handle, info) _() P(made, request)
#define TL_BCAST_INIT(P, _) TL_BCAST(P, _) _() P(handle, info) _() P(made, request)
#define TL_ALLREDUCE_INIT(P, _) TL_ALLREDUCE(P, _) _() P(handle, info) _() P(made, request)
#define TL_REDUCE_INIT(P, _) TL_REDUCE(P, _) _() P(handle, info) _() P(made, request)
#define TL_REDUCE_SCATTER_INIT(P, _) TL_REDUCE_SCATTER(P, _) _() P(handle, info) _() P(made, request)
#define TL_ALLGATHER_INIT(P, _) TL_ALLGATHER(P, _) _() P(handle, info) _() P(made, request)
#define TL_GATHER_INIT(P, _) TL_GATHER(P, _) _() P(handle, info) _() P(made, request)
#define TL_GATHERV_INIT(P, _) TL_GATHERV(P, _) _() P(handle, info) _() P(made, request)
#define TL_SCATTERV_INIT(P, _) TL_SCATTERV(P, _) _() P(handle, info) _() P(made, request)
#define TL_ALLGATHERV_INIT(P, _) TL_ALLGATHERV(P, _) _() P(handle, info) _() P(made, request)
#define TL_ALLTOALLV_INIT(P, _) TL_ALLTOALLV(P, _) _() P(handle, info) _() P(made, request)
#define TL_ALLTOALLW_INIT(P, _) TL_ALLTOALLW(P, _) _() P(handle, info) _() P(made, request)

#define TL_NOTE_BARRIER tl_note_barrier(call, comm)
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
#define TL_NOTE_NEIGHBOR_ALLGATHER tl_note_neighbor_allgather(call, sendcount, sendtype, comm)
#define TL_NOTE_NEIGHBOR_ALLTOALL tl_note_neighbor_alltoall(call, sendcount, sendtype, comm)
#define TL_NOTE_NEIGHBOR_ALLTOALLV tl_note_neighbor_blocks(call, sendcounts, NULL, sendtype, comm)
#define TL_NOTE_NEIGHBOR_ALLTOALLW tl_note_neighbor_blocks(call, sendcounts, sendtypes, 0, comm)

#define TL_COLLECTIVES_COUNTED(X) \
    X(15, Bcast, bcast, TL_BCAST, TL_NOTE_BCAST) \
    X(16, Ibcast, ibcast, TL_IBCAST, TL_NOTE_BCAST) \
    X(17, Allreduce, allreduce, TL_ALLREDUCE, TL_NOTE_ALLREDUCE) \
    X(18, Iallreduce, iallreduce, TL_IALLREDUCE, TL_NOTE_ALLREDUCE) \
    X(19, Reduce, reduce, TL_REDUCE, TL_NOTE_REDUCE) \
    X(20, Ireduce, ireduce, TL_IREDUCE, TL_NOTE_REDUCE) \
    X(21, Scan, scan, TL_ALLREDUCE, TL_NOTE_SCAN) \
    X(22, Iscan, iscan, TL_IALLREDUCE, TL_NOTE_SCAN) \
    X(23, Exscan, exscan, TL_ALLREDUCE, TL_NOTE_SCAN) \
    X(24, Iexscan, iexscan, TL_IALLREDUCE, TL_NOTE_SCAN) \
    X(25, Gather, gather, TL_GATHER, TL_NOTE_GATHER) \
    X(26, Igather, igather, TL_IGATHER, TL_NOTE_GATHER) \
    X(27, Gatherv, gatherv, TL_GATHERV, TL_NOTE_GATHERV) \
    X(28, Igatherv, igatherv, TL_IGATHERV, TL_NOTE_GATHERV) \
    X(29, Scatter, scatter, TL_GATHER, TL_NOTE_SCATTER) \
    X(30, Iscatter, iscatter, TL_IGATHER, TL_NOTE_SCATTER) \
    X(31, Scatterv, scatterv, TL_SCATTERV, TL_NOTE_SCATTERV) \
    X(32, Iscatterv, iscatterv, TL_ISCATTERV, TL_NOTE_SCATTERV) \
    X(33, Allgather, allgather, TL_ALLGATHER, TL_NOTE_ALLGATHER) \
    X(34, Iallgather, iallgather, TL_IALLGATHER, TL_NOTE_ALLGATHER) \
    X(35, Allgatherv, allgatherv, TL_ALLGATHERV, TL_NOTE_ALLGATHERV) \
    X(36, Iallgatherv, iallgatherv, TL_IALLGATHERV, TL_NOTE_ALLGATHERV) \
    X(37, Alltoall, alltoall, TL_ALLGATHER, TL_NOTE_ALLTOALL) \
    X(38, Ialltoall, ialltoall, TL_IALLGATHER, TL_NOTE_ALLTOALL) \
    X(39, Alltoallv, alltoallv, TL_ALLTOALLV, TL_NOTE_ALLTOALLV) \
    X(40, Ialltoallv, ialltoallv, TL_IALLTOALLV, TL_NOTE_ALLTOALLV) \
    X(41, Alltoallw, alltoallw, TL_ALLTOALLW, TL_NOTE_ALLTOALLW) \
    X(42, Ialltoallw, ialltoallw, TL_IALLTOALLW, TL_NOTE_ALLTOALLW) \
    X(43, Reduce_scatter, reduce_scatter, TL_REDUCE_SCATTER, TL_NOTE_REDUCE_SCATTER) \
    X(44, Ireduce_scatter, ireduce_scatter, TL_IREDUCE_SCATTER, TL_NOTE_REDUCE_SCATTER) \
    X(45, Reduce_scatter_block, reduce_scatter_block, TL_ALLREDUCE, TL_NOTE_REDUCE_SCATTER_BLOCK) \
    X(46, Ireduce_scatter_block, ireduce_scatter_block, TL_IALLREDUCE, TL_NOTE_REDUCE_SCATTER_BLOCK) \
    X(70, Neighbor_allgather, neighbor_allgather, TL_ALLGATHER, TL_NOTE_NEIGHBOR_ALLGATHER) \
    X(71, Ineighbor_allgather, ineighbor_allgather, TL_IALLGATHER, TL_NOTE_NEIGHBOR_ALLGATHER) \
    X(72, Neighbor_allgatherv, neighbor_allgatherv, TL_ALLGATHERV, TL_NOTE_NEIGHBOR_ALLGATHER) \
    X(73, Ineighbor_allgatherv, ineighbor_allgatherv, TL_IALLGATHERV, TL_NOTE_NEIGHBOR_ALLGATHER) \
    X(74, Neighbor_alltoall, neighbor_alltoall, TL_ALLGATHER, TL_NOTE_NEIGHBOR_ALLTOALL) \
    X(75, Ineighbor_alltoall, ineighbor_alltoall, TL_IALLGATHER, TL_NOTE_NEIGHBOR_ALLTOALL) \
    X(76, Neighbor_alltoallv, neighbor_alltoallv, TL_ALLTOALLV, TL_NOTE_NEIGHBOR_ALLTOALLV) \
    X(77, Ineighbor_alltoallv, ineighbor_alltoallv, TL_IALLTOALLV, TL_NOTE_NEIGHBOR_ALLTOALLV) \
    X(78, Neighbor_alltoallw, neighbor_alltoallw, TL_ALLTOALLW, TL_NOTE_NEIGHBOR_ALLTOALLW) \
    X(79, Ineighbor_alltoallw, ineighbor_alltoallw, TL_IALLTOALLW, TL_NOTE_NEIGHBOR_ALLTOALLW)

#define TL_COLLECTIVES_COUNTED_4(X) \
    X(54, Bcast_init, bcast_init, TL_BCAST_INIT, TL_NOTE_BCAST) \
    X(55, Allreduce_init, allreduce_init, TL_ALLREDUCE_INIT, TL_NOTE_ALLREDUCE) \
    X(56, Reduce_init, reduce_init, TL_REDUCE_INIT, TL_NOTE_REDUCE) \
    X(57, Scan_init, scan_init, TL_ALLREDUCE_INIT, TL_NOTE_SCAN) \
    X(58, Exscan_init, exscan_init, TL_ALLREDUCE_INIT, TL_NOTE_SCAN) \
    X(59, Gather_init, gather_init, TL_GATHER_INIT, TL_NOTE_GATHER) \
    X(60, Gatherv_init, gatherv_init, TL_GATHERV_INIT, TL_NOTE_GATHERV) \
    X(61, Scatter_init, scatter_init, TL_GATHER_INIT, TL_NOTE_SCATTER) \
    X(62, Scatterv_init, scatterv_init, TL_SCATTERV_INIT, TL_NOTE_SCATTERV) \
    X(63, Allgather_init, allgather_init, TL_ALLGATHER_INIT, TL_NOTE_ALLGATHER) \
    X(64, Allgatherv_init, allgatherv_init, TL_ALLGATHERV_INIT, TL_NOTE_ALLGATHERV) \
    X(65, Alltoall_init, alltoall_init, TL_ALLGATHER_INIT, TL_NOTE_ALLTOALL) \
    X(66, Alltoallv_init, alltoallv_init, TL_ALLTOALLV_INIT, TL_NOTE_ALLTOALLV) \
    X(67, Alltoallw_init, alltoallw_init, TL_ALLTOALLW_INIT, TL_NOTE_ALLTOALLW) \
    X(68, Reduce_scatter_init, reduce_scatter_init, TL_REDUCE_SCATTER_INIT, TL_NOTE_REDUCE_SCATTER) \
    X(69, Reduce_scatter_block_init, reduce_scatter_block_init, TL_ALLREDUCE_INIT, TL_NOTE_REDUCE_SCATTER_BLOCK) \
    X(80, Neighbor_allgather_init, neighbor_allgather_init, TL_ALLGATHER_INIT, TL_NOTE_NEIGHBOR_ALLGATHER) \
    X(81, Neighbor_allgatherv_init, neighbor_allgatherv_init, TL_ALLGATHERV_INIT, TL_NOTE_NEIGHBOR_ALLGATHER) \
    X(82, Neighbor_alltoall_init, neighbor_alltoall_init, TL_ALLGATHER_INIT, TL_NOTE_NEIGHBOR_ALLTOALL) \
    X(83, Neighbor_alltoallv_init, neighbor_alltoallv_init, TL_ALLTOALLV_INIT, TL_NOTE_NEIGHBOR_ALLTOALLV) \
    X(84, Neighbor_alltoallw_init, neighbor_alltoallw_init, TL_ALLTOALLW_INIT, TL_NOTE_NEIGHBOR_ALLTOALLW)

#define TL_COLLECTIVES_UNCOUNTED(X) \
    X(128, Barrier, barrier, TL_BARRIER, TL_NOTE_BARRIER) \
    X(129, Ibarrier, ibarrier, TL_IBARRIER, TL_NOTE_BARRIER)

#define TL_COLLECTIVES_UNCOUNTED_4(X) \
    X(152, Barrier_init, barrier_init, TL_BARRIER_INIT, TL_NOTE_BARRIER)

#endif
