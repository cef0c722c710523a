/*
 * Point-to-point operations and requests: their part of the table in operations.h, which explains it.
 */
#ifndef THROUGHLINE_OPERATIONS_MESSAGES_H
#define THROUGHLINE_OPERATIONS_MESSAGES_H

#define TL_SEND(P, _) \
    P(cbuf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, dest) _() P(tag, tag) _() P(comm, comm)
#define TL_ISEND(P, _) TL_SEND(P, _) _() P(begun, request)
#define TL_IRECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, source) _() P(tag, tag) _() \
    P(comm, comm) _() P(begun, request)
#define TL_RECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, source) _() P(tag, tag) _() \
    P(comm, comm) _() P(status, status)
#define TL_MRECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(out, message) _() P(status, status)
#define TL_SENDRECV(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(rank, dest) _() P(integer, sendtag) _() \
    P(buf, recvbuf) _() P(count, recvcount) _() P(type, recvtype) _() P(rank, source) _() \
    P(tag, recvtag) _() P(comm, comm) _() P(status, status)
#define TL_SENDRECV_REPLACE(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, dest) _() P(integer, sendtag) _() \
    P(rank, source) _() P(tag, recvtag) _() P(comm, comm) _() P(status, status)
#define TL_IMRECV(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(out, message) _() P(begun, request)
#define TL_ISENDRECV(P, _) \
    P(cbuf, sendbuf) _() P(count, sendcount) _() P(type, sendtype) _() P(rank, dest) _() P(integer, sendtag) _() \
    P(buf, recvbuf) _() P(count, recvcount) _() P(type, recvtype) _() P(rank, source) _() \
    P(tag, recvtag) _() P(comm, comm) _() P(begun, request)
#define TL_ISENDRECV_REPLACE(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, dest) _() P(integer, sendtag) _() \
    P(rank, source) _() P(tag, recvtag) _() P(comm, comm) _() P(begun, request)

/* Requests that are made now and count when they are started: `made`. */
#define TL_SEND_INIT(P, _) TL_SEND(P, _) _() P(made, request)
#define TL_RECV_INIT(P, _) \
    P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(rank, source) _() P(tag, tag) _() \
    P(comm, comm) _() P(made, request)
/* Partitions of `count` elements each; MPI 4.0 has them with MPI_Count only. */
#define TL_PSEND_INIT(P, _) \
    P(cbuf, buf) _() P(integer, partitions) _() P(wide, count) _() P(type, datatype) _() P(rank, dest) _() \
    P(tag, tag) _() P(comm, comm) _() P(handle, info) _() P(made, request)
#define TL_PRECV_INIT(P, _) \
    P(buf, buf) _() P(integer, partitions) _() P(wide, count) _() P(type, datatype) _() P(rank, source) _() \
    P(tag, tag) _() P(comm, comm) _() P(handle, info) _() P(made, request)
#define TL_PREADY(P, _) P(integer, partition) _() P(out, request)
#define TL_PREADY_RANGE(P, _) P(integer, first) _() P(integer, last) _() P(out, request)
#define TL_PREADY_LIST(P, _) P(integer, length) _() P(out, partitions) _() P(out, request)
#define TL_PARRIVED(P, _) P(out, request) _() P(integer, partition) _() P(out, flag)

/* `pending` and `pendings` are looked up before the call, as the library overwrites and reuses the handles. */
#define TL_WAIT(P, _) P(pending, request) _() P(waited, status)
#define TL_WAITALL(P, _) P(integer, count) _() P(pendings, requests) _() P(statuses, statuses)
#define TL_WAITANY(P, _) P(integer, count) _() P(pendings, requests) _() P(out, index) _() P(waited, status)
#define TL_WAITSOME(P, _) \
    P(integer, count) _() P(pendings, requests) _() P(out, outcount) _() P(out, indices) _() P(statuses, statuses)
#define TL_TEST(P, _) P(pending, request) _() P(out, flag) _() P(waited, status)
#define TL_TESTALL(P, _) P(integer, count) _() P(pendings, requests) _() P(out, flag) _() P(tested, statuses)
#define TL_TESTANY(P, _) \
    P(integer, count) _() P(pendings, requests) _() P(out, index) _() P(out, flag) _() P(waited, status)
#define TL_START(P, _) P(pending, request)
#define TL_STARTALL(P, _) P(integer, count) _() P(pendings, requests)
#define TL_PROBE(P, _) P(rank, source) _() P(tag, tag) _() P(comm, comm) _() P(out, status)
#define TL_IPROBE(P, _) P(rank, source) _() P(tag, tag) _() P(comm, comm) _() P(out, flag) _() P(out, status)
#define TL_MPROBE(P, _) \
    P(rank, source) _() P(tag, tag) _() P(comm, comm) _() P(out, message) _() P(out, status)
#define TL_IMPROBE(P, _) \
    P(rank, source) _() P(tag, tag) _() P(comm, comm) _() P(out, flag) _() P(out, message) _() P(out, status)

#define TL_NOTE_TIME tl_note_time(call)
#define TL_NOTE_SEND tl_note_message(call, count, datatype, dest, comm)
#define TL_NOTE_RECV (tl_note_receive(call, count, datatype), tl_note_received(call, status))
#define TL_NOTE_IRECV (tl_note_receive(call, count, datatype), tl_note_receives(call))
#define TL_NOTE_SENDRECV (tl_note_message(call, sendcount, sendtype, dest, comm), tl_note_received(call, status))
#define TL_NOTE_SENDRECV_REPLACE (TL_NOTE_SEND, tl_note_received(call, status))
#define TL_NOTE_ISENDRECV (tl_note_message(call, sendcount, sendtype, dest, comm), tl_note_receives_too(call))
#define TL_NOTE_ISENDRECV_REPLACE (TL_NOTE_SEND, tl_note_receives_too(call))
#define TL_NOTE_PSEND_INIT tl_note_message(call, partitions * count, datatype, dest, comm)
#define TL_NOTE_PRECV_INIT tl_note_partitions(call, partitions * count, datatype, source)
#define TL_NOTE_WAIT (tl_note_time(call), tl_completed_all(call, &tl_looked, status))
#define TL_NOTE_WAITALL (tl_note_time(call), tl_completed_all(call, &tl_looked, statuses))
#define TL_NOTE_WAITANY (tl_note_time(call), tl_completed_any(call, &tl_looked, index, status))
#define TL_NOTE_WAITSOME (tl_note_time(call), tl_completed_some(call, &tl_looked, outcount, indices, statuses))
/* Has a poll brought anything? `in` is where its arguments are, with a dot, or nothing. */
#define TL_CAME_Test(in) *(const int *)in flag
#define TL_CAME_Testall(in) *(const int *)in flag
#define TL_CAME_Testany(in) *(const int *)in flag
#define TL_CAME_Testsome(in) (*(const int *)in outcount > 0)
#define TL_CAME_Iprobe(in) *(const int *)in flag
#define TL_CAME_Improbe(in) *(const int *)in flag
#define TL_NOTE_POLL(Name, completed) \
    if (tl_note_poll(call, tl_operation, TL_CAME_##Name())) { \
        tl_requests_stored(&tl_looked, call); \
        completed; \
    }
#define TL_NOTE_TEST TL_NOTE_POLL(Test, tl_completed_if(call, &tl_looked, flag, status))
#define TL_NOTE_TESTALL TL_NOTE_POLL(Testall, tl_completed_if(call, &tl_looked, flag, statuses))
#define TL_NOTE_TESTANY TL_NOTE_POLL(Testany, tl_completed_any(call, &tl_looked, index, status))
#define TL_NOTE_TESTSOME TL_NOTE_POLL(Testsome, tl_completed_some(call, &tl_looked, outcount, indices, statuses))
#define TL_NOTE_IPROBE tl_note_poll(call, tl_operation, TL_CAME_Iprobe())
#define TL_NOTE_START tl_persistent_started(call, &tl_looked)
#define TL_NOTE_REQUEST_FREE (tl_note_time(call), tl_requests_freed(&tl_looked))
#define TL_NOTE_CANCEL (tl_note_time(call), tl_requests_cancelled(&tl_looked))

#define TL_MESSAGES_COUNTED(X) \
    X(1, Send, send, TL_SEND, TL_NOTE_SEND) \
    X(2, Bsend, bsend, TL_SEND, TL_NOTE_SEND) \
    X(3, Ssend, ssend, TL_SEND, TL_NOTE_SEND) \
    X(4, Rsend, rsend, TL_SEND, TL_NOTE_SEND) \
    X(5, Isend, isend, TL_ISEND, TL_NOTE_SEND) \
    X(6, Ibsend, ibsend, TL_ISEND, TL_NOTE_SEND) \
    X(7, Issend, issend, TL_ISEND, TL_NOTE_SEND) \
    X(8, Irsend, irsend, TL_ISEND, TL_NOTE_SEND) \
    X(9, Recv, recv, TL_RECV, TL_NOTE_RECV) \
    X(10, Irecv, irecv, TL_IRECV, TL_NOTE_IRECV) \
    X(11, Mrecv, mrecv, TL_MRECV, TL_NOTE_RECV) \
    X(12, Imrecv, imrecv, TL_IMRECV, TL_NOTE_IRECV) \
    X(13, Sendrecv, sendrecv, TL_SENDRECV, TL_NOTE_SENDRECV) \
    X(14, Sendrecv_replace, sendrecv_replace, TL_SENDRECV_REPLACE, TL_NOTE_SENDRECV_REPLACE) \
    X(47, Send_init, send_init, TL_SEND_INIT, TL_NOTE_SEND) \
    X(48, Bsend_init, bsend_init, TL_SEND_INIT, TL_NOTE_SEND) \
    X(49, Ssend_init, ssend_init, TL_SEND_INIT, TL_NOTE_SEND) \
    X(50, Rsend_init, rsend_init, TL_SEND_INIT, TL_NOTE_SEND) \
    X(51, Recv_init, recv_init, TL_RECV_INIT, TL_NOTE_IRECV)

#define TL_MESSAGES_COUNTED_4(X) \
    X(52, Isendrecv, isendrecv, TL_ISENDRECV, TL_NOTE_ISENDRECV) \
    X(53, Isendrecv_replace, isendrecv_replace, TL_ISENDRECV_REPLACE, TL_NOTE_ISENDRECV_REPLACE)

#define TL_BUFFER_DETACH(P, _) P(handle, buffer) _() P(handle, bytes)

#define TL_MESSAGES_PLAIN(X) \
    X(130, Wait, wait, TL_WAIT, TL_NOTE_WAIT) \
    X(131, Waitall, waitall, TL_WAITALL, TL_NOTE_WAITALL) \
    X(132, Waitany, waitany, TL_WAITANY, TL_NOTE_WAITANY) \
    X(133, Waitsome, waitsome, TL_WAITSOME, TL_NOTE_WAITSOME) \
    X(138, Probe, probe, TL_PROBE, TL_NOTE_TIME) \
    X(140, Start, start, TL_START, TL_NOTE_START) \
    X(141, Startall, startall, TL_STARTALL, TL_NOTE_START) \
    X(142, Request_free, request_free, TL_START, TL_NOTE_REQUEST_FREE) \
    X(143, Cancel, cancel, TL_START, TL_NOTE_CANCEL) \
    X(144, Mprobe, mprobe, TL_MPROBE, TL_NOTE_TIME) \
    X(211, Buffer_detach, buffer_detach, TL_BUFFER_DETACH, TL_NOTE_TIME)

/* Those that programs call again and again until they succeed: polls.h. */
#define TL_MESSAGES_POLLS(X) \
    X(134, Test, test, TL_TEST, TL_NOTE_TEST) \
    X(135, Testall, testall, TL_TESTALL, TL_NOTE_TESTALL) \
    X(136, Testany, testany, TL_TESTANY, TL_NOTE_TESTANY) \
    X(137, Testsome, testsome, TL_WAITSOME, TL_NOTE_TESTSOME) \
    X(139, Iprobe, iprobe, TL_IPROBE, TL_NOTE_IPROBE) \
    X(145, Improbe, improbe, TL_IMPROBE, TL_NOTE_IPROBE)

#define TL_MESSAGES_BUFFERED_4(X) \
    X(146, Psend_init, psend_init, TL_PSEND_INIT, TL_NOTE_PSEND_INIT) \
    X(147, Precv_init, precv_init, TL_PRECV_INIT, TL_NOTE_PRECV_INIT)

#define TL_MESSAGES_PLAIN_4(X) \
    X(148, Pready, pready, TL_PREADY, TL_NOTE_TIME) \
    X(149, Pready_range, pready_range, TL_PREADY_RANGE, TL_NOTE_TIME) \
    X(150, Pready_list, pready_list, TL_PREADY_LIST, TL_NOTE_TIME) \
    X(151, Parrived, parrived, TL_PARRIVED, TL_NOTE_TIME)

#endif
