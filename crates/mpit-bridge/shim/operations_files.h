/*
 * MPI-IO: its part of the table in operations.h, which explains it.
 */
#ifndef THROUGHLINE_OPERATIONS_FILES_H
#define THROUGHLINE_OPERATIONS_FILES_H

#define TL_FILE_READ(P, _) \
    P(handle, file) _() P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(status, status)
#define TL_FILE_READ_AT(P, _) \
    P(handle, file) _() P(wide, offset) _() P(buf, buf) _() P(count, count) _() P(type, datatype) _() \
    P(status, status)
#define TL_FILE_WRITE(P, _) \
    P(handle, file) _() P(cbuf, buf) _() P(count, count) _() P(type, datatype) _() P(out, status)
#define TL_FILE_WRITE_AT(P, _) \
    P(handle, file) _() P(wide, offset) _() P(cbuf, buf) _() P(count, count) _() P(type, datatype) _() P(out, status)
#define TL_FILE_IREAD(P, _) \
    P(handle, file) _() P(buf, buf) _() P(count, count) _() P(type, datatype) _() P(begun, request)
#define TL_FILE_IREAD_AT(P, _) \
    P(handle, file) _() P(wide, offset) _() P(buf, buf) _() P(count, count) _() P(type, datatype) _() \
    P(begun, request)
#define TL_FILE_IWRITE(P, _) \
    P(handle, file) _() P(cbuf, buf) _() P(count, count) _() P(type, datatype) _() P(begun, request)
#define TL_FILE_IWRITE_AT(P, _) \
    P(handle, file) _() P(wide, offset) _() P(cbuf, buf) _() P(count, count) _() P(type, datatype) _() \
    P(begun, request)
#define TL_FILE_READ_BEGIN(P, _) P(handle, file) _() P(buf, buf) _() P(count, count) _() P(type, datatype)
#define TL_FILE_READ_AT_BEGIN(P, _) \
    P(handle, file) _() P(wide, offset) _() P(buf, buf) _() P(count, count) _() P(type, datatype)
#define TL_FILE_WRITE_BEGIN(P, _) P(handle, file) _() P(cbuf, buf) _() P(count, count) _() P(type, datatype)
#define TL_FILE_WRITE_AT_BEGIN(P, _) \
    P(handle, file) _() P(wide, offset) _() P(cbuf, buf) _() P(count, count) _() P(type, datatype)
#define TL_FILE_READ_END(P, _) P(handle, file) _() P(buf, buf) _() P(status, status)
#define TL_FILE_WRITE_END(P, _) P(handle, file) _() P(cbuf, buf) _() P(out, status)
#define TL_FILE_OPEN(P, _) \
    P(comm, comm) _() P(text, name) _() P(integer, mode) _() P(handle, info) _() P(out, file)
#define TL_FILE_CLOSE(P, _) P(out, file)
#define TL_FILE_ALONE(P, _) P(handle, file)
#define TL_FILE_SIZE(P, _) P(handle, file) _() P(wide, size)
#define TL_FILE_SET(P, _) P(handle, file) _() P(handle, value)
#define TL_FILE_SEEK(P, _) P(handle, file) _() P(wide, offset) _() P(handle, from)
#define TL_FILE_SET_VIEW(P, _) \
    P(handle, file) _() P(wide, offset) _() P(handle, element) _() P(handle, view) _() P(text, representation) _() P(handle, info)
#define TL_FILE_DELETE(P, _) P(text, name) _() P(handle, info)

#define TL_NOTE_WRITE tl_note_bytes(call, count, datatype)
#define TL_NOTE_READ TL_NOTE_RECV
#define TL_NOTE_READ_BEGIN tl_note_receive(call, count, datatype)
#define TL_NOTE_READ_END (tl_note_time(call), tl_note_received(call, status))

#define TL_FILES_COUNTED(X) \
    X(93, File_read, file_read, TL_FILE_READ, TL_NOTE_READ) \
    X(94, File_read_all, file_read_all, TL_FILE_READ, TL_NOTE_READ) \
    X(95, File_read_at, file_read_at, TL_FILE_READ_AT, TL_NOTE_READ) \
    X(96, File_read_at_all, file_read_at_all, TL_FILE_READ_AT, TL_NOTE_READ) \
    X(97, File_read_shared, file_read_shared, TL_FILE_READ, TL_NOTE_READ) \
    X(98, File_read_ordered, file_read_ordered, TL_FILE_READ, TL_NOTE_READ) \
    X(99, File_write, file_write, TL_FILE_WRITE, TL_NOTE_WRITE) \
    X(100, File_write_all, file_write_all, TL_FILE_WRITE, TL_NOTE_WRITE) \
    X(101, File_write_at, file_write_at, TL_FILE_WRITE_AT, TL_NOTE_WRITE) \
    X(102, File_write_at_all, file_write_at_all, TL_FILE_WRITE_AT, TL_NOTE_WRITE) \
    X(103, File_write_shared, file_write_shared, TL_FILE_WRITE, TL_NOTE_WRITE) \
    X(104, File_write_ordered, file_write_ordered, TL_FILE_WRITE, TL_NOTE_WRITE) \
    X(105, File_iread, file_iread, TL_FILE_IREAD, TL_NOTE_IRECV) \
    X(106, File_iread_all, file_iread_all, TL_FILE_IREAD, TL_NOTE_IRECV) \
    X(107, File_iread_at, file_iread_at, TL_FILE_IREAD_AT, TL_NOTE_IRECV) \
    X(108, File_iread_at_all, file_iread_at_all, TL_FILE_IREAD_AT, TL_NOTE_IRECV) \
    X(109, File_iread_shared, file_iread_shared, TL_FILE_IREAD, TL_NOTE_IRECV) \
    X(110, File_iwrite, file_iwrite, TL_FILE_IWRITE, TL_NOTE_WRITE) \
    X(111, File_iwrite_all, file_iwrite_all, TL_FILE_IWRITE, TL_NOTE_WRITE) \
    X(112, File_iwrite_at, file_iwrite_at, TL_FILE_IWRITE_AT, TL_NOTE_WRITE) \
    X(113, File_iwrite_at_all, file_iwrite_at_all, TL_FILE_IWRITE_AT, TL_NOTE_WRITE) \
    X(114, File_iwrite_shared, file_iwrite_shared, TL_FILE_IWRITE, TL_NOTE_WRITE) \
    X(115, File_read_all_begin, file_read_all_begin, TL_FILE_READ_BEGIN, TL_NOTE_READ_BEGIN) \
    X(116, File_read_at_all_begin, file_read_at_all_begin, TL_FILE_READ_AT_BEGIN, TL_NOTE_READ_BEGIN) \
    X(117, File_read_ordered_begin, file_read_ordered_begin, TL_FILE_READ_BEGIN, TL_NOTE_READ_BEGIN) \
    X(118, File_write_all_begin, file_write_all_begin, TL_FILE_WRITE_BEGIN, TL_NOTE_WRITE) \
    X(119, File_write_at_all_begin, file_write_at_all_begin, TL_FILE_WRITE_AT_BEGIN, TL_NOTE_WRITE) \
    X(120, File_write_ordered_begin, file_write_ordered_begin, TL_FILE_WRITE_BEGIN, TL_NOTE_WRITE)

#define TL_FILES_BUFFERED(X) \
    X(170, File_read_all_end, file_read_all_end, TL_FILE_READ_END, TL_NOTE_READ_END) \
    X(171, File_read_at_all_end, file_read_at_all_end, TL_FILE_READ_END, TL_NOTE_READ_END) \
    X(172, File_read_ordered_end, file_read_ordered_end, TL_FILE_READ_END, TL_NOTE_READ_END) \
    X(173, File_write_all_end, file_write_all_end, TL_FILE_WRITE_END, TL_NOTE_TIME) \
    X(174, File_write_at_all_end, file_write_at_all_end, TL_FILE_WRITE_END, TL_NOTE_TIME) \
    X(175, File_write_ordered_end, file_write_ordered_end, TL_FILE_WRITE_END, TL_NOTE_TIME)

#define TL_FILES_PLAIN(X) \
    X(177, File_close, file_close, TL_FILE_CLOSE, TL_NOTE_TIME) \
    X(178, File_sync, file_sync, TL_FILE_ALONE, TL_NOTE_TIME) \
    X(179, File_set_size, file_set_size, TL_FILE_SIZE, TL_NOTE_TIME) \
    X(180, File_preallocate, file_preallocate, TL_FILE_SIZE, TL_NOTE_TIME) \
    X(206, File_set_info, file_set_info, TL_FILE_SET, TL_NOTE_TIME) \
    X(207, File_set_atomicity, file_set_atomicity, TL_FILE_SET, TL_NOTE_TIME) \
    X(208, File_seek_shared, file_seek_shared, TL_FILE_SEEK, TL_NOTE_TIME)

/* Their Fortran forms have the hidden lengths of texts. */
#define TL_FILES_TEXT(X) \
    X(176, File_open, file_open, TL_FILE_OPEN, TL_NOTE_TIME) \
    X(209, File_set_view, file_set_view, TL_FILE_SET_VIEW, TL_NOTE_TIME) \
    X(210, File_delete, file_delete, TL_FILE_DELETE, TL_NOTE_TIME)

#endif
