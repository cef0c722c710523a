/*
 * Where every note ends: the cell of an operation and size class, the sums of a peer, the sums of a
 * communicator's members. Inline, as these are the instructions that each MPI call pays for. Only included
 * by the files that account (accounting*.c, persistent.c); must not call MPI but to size datatypes.
 */
#ifndef THROUGHLINE_ACCOUNTING_H
#define THROUGHLINE_ACCOUNTING_H

#include "persistent.h"
#include "shim.h"

/* Bytes of `count` elements. Types beyond 2 GiB answer MPI_UNDEFINED (negative) to the int call. */
static inline int64_t bytes_of(int64_t count, tl_handle type) {
    int size = 0;
    if (tl_library.type_size(type, &size) != 0) return 0;
    if (TL_LIKELY(size >= 0)) return count * size;
    int64_t wide = 0;
    if (!tl_library.type_size_x || tl_library.type_size_x(type, &wide) != 0 || wide < 0) return 0;
    return count * wide;
}

/* Class 0 holds empty messages, class n those up to 2^(n-1) bytes. */
static inline int size_class(int64_t bytes) {
    if (bytes <= 0) return 0;
    int class = bytes == 1 ? 1 : 65 - __builtin_clzll((uint64_t)bytes - 1);
    return class < TL_SIZE_CLASSES ? class : TL_SIZE_CLASSES - 1;
}

static inline void record(tl_callp call, int64_t class_bytes, int64_t bytes) {
    struct tl_thread *self = call->self;
    self->last_bytes = bytes;
    if (TL_UNLIKELY(self->capture)) {
        tl_capture_cell(self->capture, call->operation, class_bytes, bytes);
        return;
    }
    struct tl_row *row = self->algorithm ? NULL : self->table->rows[call->operation];
    if (TL_UNLIKELY(!row) && !(row = tl_row_find(self, self->table, call->operation, self->algorithm))) return;
    int class = size_class(class_bytes);
    struct tl_cell *cell = &row->cells[class];
    uint64_t calls = TL_LOAD(&cell->calls);
    self->last_class = class;
    TL_ADD(&cell->bytes, (uint64_t)bytes);
    TL_ADD(&cell->ticks, call->ticks);
    if (call->ticks > TL_LOAD(&cell->longest_ticks)) TL_STORE(&cell->longest_ticks, call->ticks);
    TL_STORE(&cell->calls, calls + 1);
    if (TL_UNLIKELY(calls == 0)) TL_STORE(&row->used, row->used | (uint64_t)1 << class);
}

static inline void received(tl_callp call, int64_t bytes) {
    tl_account_received(call->self, tl_account_last(call), bytes);
}

static inline void unknown(struct tl_thread *self, uint64_t messages) {
    if (TL_UNLIKELY(self->capture)) tl_capture_unknown(self->capture, messages);
    else TL_ADD(&self->unknown_messages, messages);
}

static inline void add_peer(struct tl_thread *self, int peer, int64_t bytes) {
    struct tl_peer *peers = self->peers;
    if (TL_UNLIKELY(!peers)) peers = tl_peers_create(self);
    if (TL_UNLIKELY(!peers || peer < 0)) {
        unknown(self, 1);
        return;
    }
    TL_ADD(&peers[peer].bytes, (uint64_t)bytes);
    TL_ADD(&peers[peer].messages, 1);
}

static inline void to_member(struct tl_thread *self, const struct tl_comm *comm, int member, int64_t bytes) {
    int peer = !comm || member < 0 || member >= comm->size ? -1 : comm->world ? comm->world[member] : member;
    if (TL_UNLIKELY(self->capture)) tl_capture_peer(self->capture, peer, bytes);
    else add_peer(self, peer, bytes);
}

static inline void add_everyone(struct tl_comm *comm, int64_t bytes) {
    if (TL_UNLIKELY(tl_shared_comms)) {
        __atomic_fetch_add(&comm->everyone_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&comm->everyone_messages, 1, __ATOMIC_RELAXED);
    } else {
        TL_ADD(&comm->everyone_bytes, (uint64_t)bytes);
        TL_ADD(&comm->everyone_messages, 1);
    }
}

static inline void to_everyone(struct tl_thread *self, struct tl_comm *comm, int64_t bytes) {
    if (TL_UNLIKELY(!comm)) unknown(self, 1);
    else if (TL_UNLIKELY(self->capture)) tl_capture_everyone(self->capture, comm, bytes);
    else add_everyone(comm, bytes);
}

static inline int64_t count_at(const struct tl_call *call, const void *counts, int i) {
    return call->form == TL_FORM_LARGE ? ((const int64_t *)counts)[i] : ((const int *)counts)[i];
}

static inline tl_handle type_at(const struct tl_call *call, const void *types, int i) {
    if (tl_is_fortran(call->form)) return tl_library.type_f2c(((const int *)types)[i]);
    return tl_library.handle_bytes == 8 ? ((const tl_handle *)types)[i] : ((const int *)types)[i];
}

static inline int in_place(const void *buffer) {
    return buffer == tl_library.in_place;
}

#endif
