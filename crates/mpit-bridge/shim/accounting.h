/*
 * Where every note ends: the cell of an operation and size class, the sums of a peer, the sums of a
 * group's collectives. Inline, as these are the instructions that each MPI call pays for. Only included
 * by the files that account (accounting*.c, persistent.c, groups.c); must not call MPI but to size datatypes.
 */
#ifndef THROUGHLINE_ACCOUNTING_H
#define THROUGHLINE_ACCOUNTING_H

#include <stddef.h>
#include <stdint.h>

#include "captures.h"
#include "cells.h"
#include "comm.h"
#include "comms.h"
#include "form.h"
#include "groups.h"
#include "library.h"
#include "limits.h"
#include "notes.h"
#include "peer_sums.h"
#include "readings.h"
#include "samples.h"
#include "shim.h"
#include "threads.h"
#include "types.h"

/* Bytes of `count` elements; of none, `type` may be anything. */
TL_HOT int64_t bytes_of(const struct tl_call *call, int64_t count, tl_handle type) {
    type = tl_same(type);
    const struct tl_type *known = &call->self->types[tl_type_place(type)];
    int64_t size = TL_LIKELY(known->handle == type && known->size >= 0) ? known->size : tl_type_size(call->self, type, count);
    return count * size;
}

/* Class 0 holds empty messages, class n those up to 2^(n-1) bytes. */
TL_HOT unsigned size_class(int64_t bytes) {
    if (bytes <= 0) return 0;
    unsigned class = 64 - (unsigned)__builtin_clzll((((uint64_t)bytes - 1) << 1) | 1);
    return class < TL_SIZE_CLASSES ? class : TL_SIZE_CLASSES - 1;
}

/* The row of an operation, with the algorithm that was observed. NULL where there is none yet. */
TL_HOT struct tl_row *row_at(const struct tl_table *table, int operation, int algorithm) {
    if (TL_LIKELY(algorithm == 0)) return table->rows[operation];
    struct tl_row *row = table->observed[algorithm];
    return row && row->operation == operation ? row : NULL;
}

/* Before anything is added to a cell: what ends now belongs to the bin that the cell is in, or begins another one. */
TL_HOT void bin_of(struct tl_thread *self, struct tl_row *row, unsigned class, uint64_t now) {
    if (TL_UNLIKELY(now >= TL_LOAD(&row->cells[class].until))) tl_reading_turn(self, row, class, now);
}

TL_HOT uint64_t end_of(const struct tl_call *call) {
    return call->start + call->ticks;
}

TL_HOT void record(tl_callp call, int64_t class_bytes, int64_t bytes) {
    struct tl_thread *self = call->self;
    self->last_bytes = bytes;
    if (TL_UNLIKELY(self->capture)) {
        self->last_cell = NULL;
        tl_capture_cell(self->capture, call->operation, class_bytes, bytes);
        return;
    }
    struct tl_row *row = row_at(self->table, call->operation, self->algorithm);
    if (TL_UNLIKELY(!row) && !(row = tl_row_find(self, self->table, call->operation, self->algorithm))) {
        self->last_cell = NULL;
        return;
    }
    unsigned class = size_class(class_bytes);
    struct tl_cell *cell = &row->cells[class];
    bin_of(self, row, class, end_of(call));
    self->last_class = (int)class;
    self->last_cell = cell;
    TL_ADD(&cell->calls, 1);
    TL_ADD(&cell->bytes, (uint64_t)bytes);
    TL_ADD(&cell->ticks, call->ticks);
    uint32_t code = tl_ticks_code(call->ticks);
    if (TL_UNLIKELY(code > TL_LOAD(&cell->longest))) TL_STORE(&cell->longest, code);
    if (TL_UNLIKELY(code < TL_LOAD(&cell->shortest))) TL_STORE(&cell->shortest, code);
}

/* The call just recorded has received so much itself. */
TL_HOT void received(tl_callp call, int64_t bytes) {
    struct tl_cell *cell = call->self->last_cell;
    if (TL_UNLIKELY(!cell || bytes < 0)) return;
    TL_ADD(&cell->received_bytes, (uint64_t)bytes);
    TL_ADD(&cell->received, 1);
}

TL_HOT struct tl_comm *comm_of(const struct tl_call *call, tl_handle handle) {
    handle = tl_same(handle);
    struct tl_comm *comm = call->self->last_comm;
    return TL_LIKELY(TL_LOAD(&comm->handle) == handle) ? comm : tl_comm_find(call->self, handle);
}

/* The call hands a member so much. */
TL_HOT void to_member(const struct tl_call *call, const struct tl_comm *comm, int member, int64_t bytes) {
    add_member(call->self, call->operation, comm, member, bytes);
}

/* After `record`, whose cell says which operation, algorithm and size class it is. */
TL_HOT void add_collective(const struct tl_call *call, struct tl_comm *comm, int root, int64_t block) {
    struct tl_thread *self = call->self;
    int operation = call->operation;
    struct tl_collective *cell = __atomic_load_n(&comm->last, __ATOMIC_ACQUIRE);
    int same_root = __builtin_constant_p(root) && root == TL_NO_ROOT; /* the operation has none */
    if (TL_UNLIKELY(TL_LOAD(&cell->of) != self->last_cell || (!same_root && (int)TL_LOAD(&cell->key) != root)) &&
        !(cell = tl_collective_find(self, comm, operation, root, block)))
        return;
    uint64_t number; /* the same in all members, as they call collectives in one order */
    if (TL_UNLIKELY(tl_shared_comms)) {
        number = __atomic_add_fetch(&cell->calls, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&cell->bytes, (uint64_t)block, __ATOMIC_RELAXED);
    } else {
        number = cell->calls + 1;
        TL_STORE(&cell->calls, number);
        TL_ADD(&cell->bytes, (uint64_t)block);
    }
    if (TL_UNLIKELY(number * TL_SAMPLE_SPREAD >= TL_LOAD(&cell->skip))) tl_sample(comm, cell, number, call->ticks);
}

/* A collective that its algorithm lays out over the members: `block` is what its size class is made of. After `record`. */
TL_HOT void collective(const struct tl_call *call, struct tl_comm *comm, int root, int64_t block) {
    struct tl_thread *self = call->self;
    if (TL_UNLIKELY(!comm)) unknown(self, 1);
    else if (TL_UNLIKELY(self->capture)) tl_capture_collective(self->capture, comm, root, block);
    else add_collective(call, comm, root, block);
}

static inline int64_t count_at(const struct tl_call *call, const void *counts, int i) {
    return tl_is_large(call->form) ? ((const int64_t *)counts)[i] : ((const int *)counts)[i];
}

static inline tl_handle type_at(const struct tl_call *call, const void *types, int i) {
    if (tl_is_fortran(call->form)) return tl_library.type_f2c(((const int *)types)[i]);
    return tl_library.handle_bytes == 8 ? ((const tl_handle *)types)[i] : ((const int *)types)[i];
}

/* The blocks of the v and w forms: an array of counts, and of types or one type for all. */
struct blocks {
    const void *counts, *types;
    tl_handle type;
    int64_t element; /* bytes of that type; -1: not queried yet, as a call whose counts are all 0 may have any type */
};

TL_HOT int64_t block_at(const struct tl_call *call, struct blocks *blocks, int i) {
    int64_t count = count_at(call, blocks->counts, i);
    if (count == 0) return 0;
    if (blocks->types) return bytes_of(call, count, type_at(call, blocks->types, i));
    if (blocks->element < 0) blocks->element = bytes_of(call, 1, blocks->type);
    return count * blocks->element;
}

static inline int in_place(const void *buffer) {
    return buffer == tl_library.in_place;
}

#endif
