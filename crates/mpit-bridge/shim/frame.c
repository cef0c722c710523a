/* Laying out and reading frames, number by number, so that neither padding nor byte order of the machine matter. */
#define _GNU_SOURCE
#include "frame.h"

#include <endian.h>
#include <string.h>

void tl_put(struct tl_frame *frame, const void *data, size_t length) {
    if (length > TL_FRAME_LIMIT - frame->length) {
        frame->overflow = 1;
        return;
    }
    memcpy(frame->bytes + frame->length, data, length);
    frame->length += length;
}

static void put_little(uint8_t *to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_little(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

void tl_put_u16(struct tl_frame *frame, uint16_t value) {
    value = htole16(value);
    tl_put(frame, &value, sizeof value);
}
void tl_put_u32(struct tl_frame *frame, uint32_t value) {
    value = htole32(value);
    tl_put(frame, &value, sizeof value);
}
void tl_put_u64(struct tl_frame *frame, uint64_t value) {
    value = htole64(value);
    tl_put(frame, &value, sizeof value);
}

void tl_patch_u32(struct tl_frame *frame, size_t at, uint32_t value) {
    if (at + 4 <= frame->length) put_little(frame->bytes + at, value, 4);
}

void tl_frame_begin(struct tl_frame *frame, enum tl_frame_type type) {
    frame->length = 0;
    frame->overflow = 0;
    tl_put_u32(frame, TL_MAGIC);
    tl_put_u16(frame, TL_PROTOCOL);
    tl_put_u16(frame, (uint16_t)type);
    for (size_t i = frame->length; i < TL_HEADER_BYTES; i += 4) tl_put_u32(frame, 0);
}

void tl_frame_end(struct tl_frame *frame, uint32_t sequence, int64_t monotonic, int64_t realtime) {
    put_little(frame->bytes + 8, frame->length, 4);
    put_little(frame->bytes + 12, sequence, 4);
    put_little(frame->bytes + 16, (uint64_t)monotonic, 8);
    put_little(frame->bytes + 24, (uint64_t)realtime, 8);
}

void tl_field(struct tl_frame *frame, uint16_t tag, const void *data, size_t length) {
    if (length > UINT16_MAX || length + 4 > TL_FRAME_LIMIT - frame->length) {
        frame->overflow = 1;
        return;
    }
    tl_put_u16(frame, tag);
    tl_put_u16(frame, (uint16_t)length);
    tl_put(frame, data, length);
}

void tl_field_u32(struct tl_frame *frame, uint16_t tag, uint32_t value) {
    uint8_t little[4];
    put_little(little, value, sizeof little);
    tl_field(frame, tag, little, sizeof little);
}

void tl_field_u64(struct tl_frame *frame, uint16_t tag, uint64_t value) {
    uint8_t little[8];
    put_little(little, value, sizeof little);
    tl_field(frame, tag, little, sizeof little);
}

void tl_field_text(struct tl_frame *frame, uint16_t tag, const char *text) {
    tl_field(frame, tag, text, strlen(text));
}

void tl_field_u32s(struct tl_frame *frame, uint16_t tag, const uint32_t *values, size_t count) {
    uint8_t little[64 * 4];
    if (count > sizeof little / 4) {
        frame->overflow = 1;
        return;
    }
    for (size_t i = 0; i < count; i++) put_little(little + 4 * i, values[i], 4);
    tl_field(frame, tag, little, 4 * count);
}

size_t tl_put_bin(struct tl_frame *frame, int64_t end_monotonic) {
    tl_put_u64(frame, (uint64_t)end_monotonic);
    size_t count_at = frame->length;
    tl_put_u32(frame, 0);
    tl_put_u32(frame, 0);
    return count_at;
}

void tl_put_cell(struct tl_frame *frame, const struct tl_sums *sums) {
    const uint16_t small[] = {sums->operation, sums->size_class, sums->region,
                              sums->algorithm, sums->source,     sums->flags};
    const uint64_t large[] = {sums->calls,          sums->bytes,           sums->nanoseconds, sums->longest_nanoseconds,
                              sums->wait_nanoseconds, sums->received_bytes};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) tl_put_u16(frame, small[i]);
    tl_put_u32(frame, sums->least_share);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) tl_put_u64(frame, large[i]);
}

void tl_put_peer(struct tl_frame *frame, enum tl_peer_kind kind, uint32_t peer, uint64_t bytes, uint64_t messages) {
    tl_put_u32(frame, peer);
    tl_put_u32(frame, (uint32_t)kind);
    tl_put_u64(frame, bytes);
    tl_put_u64(frame, messages);
}

void tl_put_traffic(struct tl_frame *frame, const struct tl_traffic *entry) {
    tl_put_u32(frame, entry->peer);
    tl_put_u16(frame, entry->operation);
    tl_put_u16(frame, entry->kind);
    tl_put_u64(frame, entry->bytes);
    tl_put_u64(frame, entry->messages);
}

size_t tl_put_group(struct tl_frame *frame, uint32_t number, uint32_t generation, uint32_t size, uint32_t rank,
                    uint32_t first) {
    tl_put_u32(frame, number);
    tl_put_u32(frame, generation);
    tl_put_u32(frame, size);
    tl_put_u32(frame, rank);
    tl_put_u32(frame, first);
    size_t count_at = frame->length;
    tl_put_u32(frame, 0);
    return count_at;
}

void tl_put_run(struct tl_frame *frame, uint32_t start, int32_t stride, uint32_t count) {
    tl_put_u32(frame, start);
    tl_put_u32(frame, (uint32_t)stride);
    tl_put_u32(frame, count);
}

void tl_put_collective(struct tl_frame *frame, const struct tl_collective_sums *sums) {
    tl_put_u32(frame, sums->group);
    tl_put_u32(frame, sums->root);
    tl_put_u16(frame, sums->operation);
    tl_put_u16(frame, sums->size_class);
    tl_put_u16(frame, sums->algorithm);
    tl_put_u16(frame, sums->source);
    tl_put_u64(frame, sums->calls);
    tl_put_u64(frame, sums->bytes);
}

void tl_put_sample(struct tl_frame *frame, const struct tl_sampled_call *sample) {
    tl_put_u32(frame, sample->group);
    tl_put_u32(frame, sample->root);
    tl_put_u16(frame, sample->operation);
    tl_put_u16(frame, sample->size_class);
    tl_put_u16(frame, sample->algorithm);
    tl_put_u16(frame, sample->level);
    tl_put_u64(frame, sample->call);
    tl_put_u64(frame, sample->nanoseconds);
}

void tl_put_account(struct tl_frame *frame, const struct tl_account *account) {
    tl_put_u64(frame, (uint64_t)account->time);
    tl_put_u32(frame, account->tid);
    tl_put_u32(frame, 0);
    tl_put_u64(frame, (uint64_t)account->began);
    tl_put_u64(frame, (uint64_t)account->open);
    tl_put_u64(frame, account->in_mpi);
    tl_put_u64(frame, (uint64_t)account->last.time);
    tl_put_u64(frame, (uint64_t)account->last.cpu);
    tl_put_u64(frame, account->last.queued);
    tl_put_u64(frame, account->off_outside);
    tl_put_u64(frame, account->off_inside);
    tl_put_u64(frame, account->queued_outside);
    tl_put_u64(frame, account->queued_inside);
}

void tl_put_open_call(struct tl_frame *frame, const struct tl_open_call *call) {
    tl_put_u16(frame, call->operation);
    tl_put_u16(frame, call->thread);
    tl_put_u16(frame, call->oldest);
    tl_put_u16(frame, 0);
    tl_put_u64(frame, (uint64_t)call->start);
    tl_put_u32(frame, call->comm);
    tl_put_u32(frame, call->comm_size);
    tl_put_u32(frame, call->peer);
    tl_put_u32(frame, call->pending);
    tl_put_u32(frame, (uint32_t)call->tag);
    tl_put_u32(frame, call->requests);
    tl_put_u32(frame, call->oldest_peer);
    tl_put_u32(frame, (uint32_t)call->oldest_tag);
}

void tl_put_name(struct tl_frame *frame, uint16_t kind, uint32_t number, uint32_t size, uint32_t place,
                 const char *text) {
    size_t length = strnlen(text, TL_NAME_LIMIT);
    tl_put_u16(frame, kind);
    tl_put_u16(frame, (uint16_t)length);
    tl_put_u32(frame, number);
    tl_put_u32(frame, size);
    tl_put_u32(frame, place);
    tl_put(frame, text, length);
}

void tl_put_region(struct tl_frame *frame, const struct tl_region_sums *sums) {
    tl_put_u32(frame, sums->number);
    tl_put_u32(frame, 0);
    tl_put_u64(frame, sums->visits);
    tl_put_u64(frame, sums->nanoseconds);
    tl_put_u64(frame, sums->own_nanoseconds);
    tl_put_u64(frame, sums->mpi_calls);
    tl_put_u64(frame, sums->mpi_nanoseconds);
}

void tl_put_trace_line(struct tl_frame *frame, const struct tl_trace_line *line) {
    tl_put_u64(frame, (uint64_t)line->start);
    tl_put_u64(frame, (uint64_t)line->end);
    tl_put_u64(frame, line->comm);
    tl_put_u64(frame, line->bytes);
    tl_put_u32(frame, (uint32_t)line->peer);
    tl_put_u32(frame, (uint32_t)line->tag);
    tl_put_u32(frame, (uint32_t)line->sequence);
    tl_put_u16(frame, line->operation);
    tl_put_u16(frame, line->kind);
    tl_put_u16(frame, line->thread);
    tl_put_u16(frame, line->region);
    tl_put_u32(frame, 0);
}

void tl_put_clock_point(struct tl_frame *frame, int64_t time, int64_t offset, int64_t uncertainty, int64_t round_trip) {
    tl_put_u64(frame, (uint64_t)time);
    tl_put_u64(frame, (uint64_t)offset);
    tl_put_u64(frame, (uint64_t)uncertainty);
    tl_put_u64(frame, (uint64_t)round_trip);
}

int tl_fields_open(struct tl_fields *fields, const uint8_t *message, size_t length, enum tl_frame_type type) {
    if (length < TL_HEADER_BYTES || get_little(message, 4) != TL_MAGIC || get_little(message + 4, 2) != TL_PROTOCOL ||
        get_little(message + 6, 2) != (uint64_t)type || get_little(message + 8, 4) != length)
        return 0;
    fields->at = message + TL_HEADER_BYTES;
    fields->end = message + length;
    return 1;
}

int tl_fields_next(struct tl_fields *fields) {
    if (fields->end - fields->at < 4) return 0;
    fields->tag = (uint16_t)get_little(fields->at, 2);
    fields->length = get_little(fields->at + 2, 2);
    fields->data = fields->at + 4;
    if (fields->length > (size_t)(fields->end - fields->data)) return 0;
    fields->at = fields->data + fields->length;
    return 1;
}

uint64_t tl_fields_number(const struct tl_fields *fields) {
    return get_little(fields->data, fields->length < 8 ? fields->length : 8);
}
