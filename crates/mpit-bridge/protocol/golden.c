/*
 * Writes one frame of each type that the shim sends, in hexadecimal, with fixed contents; and reads a WELCOME.
 * A test compares the output with golden/, and the Rust reader reads the same files.
 *
 *   golden FOLDER            writes FOLDER/{hello,ops,peers,pvars,status,bye,names,regions,trace,clock,paths}.hex
 *   golden --welcome FILE    prints what the shim reads from a WELCOME frame
 */
#include <stdio.h>
#include <string.h>

#include "../shim/frame.h"

static struct tl_frame frame;
static uint32_t sequence;

static int finish(const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.hex", folder, name);
    tl_frame_end(&frame, sequence++, 5000000000, 1700000000000000000);
    FILE *file = fopen(path, "w");
    if (!file) return 0;
    for (size_t i = 0; i < frame.length; i++) fprintf(file, "%02x%s", frame.bytes[i], i % 16 == 15 ? "\n" : " ");
    if (frame.length % 16) fputc('\n', file);
    return fclose(file) == 0 && !frame.overflow;
}

static int write_all(const char *folder) {
    int good = 1;
    tl_frame_begin(&frame, TL_HELLO);
    tl_field_u32(&frame, TL_HELLO_RANK, 2);
    tl_field_u32(&frame, TL_HELLO_SIZE, 4);
    tl_field_u64(&frame, TL_HELLO_EPOCH, 1699999990000000000);
    tl_field_text(&frame, TL_HELLO_LIBRARY, "Open MPI v4.1.4");
    tl_field_text(&frame, TL_HELLO_SHIM, "0.1.0");
    tl_field_u32(&frame, TL_HELLO_THREADS, 3);
    tl_field_text(&frame, TL_HELLO_TICKS, "cycles");
    tl_field_u32(&frame, TL_HELLO_PID, 4711);
    tl_field_text(&frame, TL_HELLO_HOST, "node17");
    tl_field_text(&frame, TL_HELLO_VARIABLE, "SLURM_JOB_ID=123");
    tl_field_text(&frame, TL_HELLO_VARIABLE, "SLURM_STEP_ID=0");
    tl_field_text(&frame, TL_HELLO_LAUNCHER, "hydra node1:4000 0");
    good &= finish(folder, "hello");

    struct tl_sums allreduce = {.operation = 17, .size_class = 14, .region = 3, .algorithm = 2, .source = TL_OBSERVED};
    allreduce.calls = 10; /* up to 8192 bytes */
    allreduce.bytes = 81920;
    allreduce.nanoseconds = 123456;
    allreduce.longest_nanoseconds = 20000;
    struct tl_sums irecv = {.operation = 10, .calls = 3, .nanoseconds = 999, .longest_nanoseconds = 500};
    irecv.flags = TL_CELL_HAS_WAIT | TL_CELL_HAS_RECEIVED;
    irecv.wait_nanoseconds = 77;
    tl_frame_begin(&frame, TL_OPS);
    size_t bin = tl_put_bin(&frame, 4800000000);
    tl_put_cell(&frame, &allreduce);
    tl_put_cell(&frame, &irecv);
    tl_patch_u32(&frame, bin, 2);
    bin = tl_put_bin(&frame, 4900000000);
    allreduce.calls = 11;
    allreduce.algorithm = 0;
    allreduce.source = TL_UNKNOWN;
    tl_put_cell(&frame, &allreduce);
    tl_patch_u32(&frame, bin, 1);
    good &= finish(folder, "ops");

    tl_frame_begin(&frame, TL_PEERS);
    tl_put_u64(&frame, 4950000000);
    tl_put_peer(&frame, TL_LOGICAL, 0, 8192, 1);
    tl_put_peer(&frame, TL_WIRE, 3, 0x7fffffffffffffff, 12);
    tl_put_peer(&frame, TL_READ, 2, 4096, 5);
    good &= finish(folder, "peers");

    tl_frame_begin(&frame, TL_PVARS);
    tl_put_u64(&frame, 4950000000);
    tl_put_u16(&frame, 10);
    tl_put(&frame, "queue_size", 10);
    tl_put_u16(&frame, 2);
    tl_put_u32(&frame, 2);
    tl_put_u32(&frame, 1);
    tl_put_u64(&frame, 0x4008000000000000); /* 3.0 */
    tl_put_u32(&frame, 5);
    tl_put_u64(&frame, 0);
    good &= finish(folder, "pvars");

    tl_frame_begin(&frame, TL_STATUS);
    for (uint16_t tag = 1; tag <= 8; tag++) tl_field_u64(&frame, tag, tag * 10u);
    good &= finish(folder, "status");

    tl_frame_begin(&frame, TL_BYE);
    tl_field_u32(&frame, TL_STATUS_REASON, TL_BYE_FINALIZE);
    tl_field_u64(&frame, TL_STATUS_FRAMES_LOST, 1);
    good &= finish(folder, "bye");

    tl_frame_begin(&frame, TL_NAMES);
    tl_put_u64(&frame, 4950000000);
    tl_put_name(&frame, 1, 3, 0, 0, "solve \xc3\xa9");
    tl_put_name(&frame, 2, 2, 0, 0, "recursivedoubling");
    tl_put_name(&frame, 3, 5, 8, 1, "rows");
    tl_put_name(&frame, 3, 6, 4, UINT32_MAX, "bridge");
    tl_put_name(&frame, 4, 0, 0, 0, "coll_tuned_allreduce_algorithm=3");
    good &= finish(folder, "names");

    struct tl_region_sums region = {3, 4, 5000, 3000, 7, 2000};
    tl_frame_begin(&frame, TL_REGIONS);
    tl_put_u64(&frame, 4950000000);
    tl_put_region(&frame, &region);
    good &= finish(folder, "regions");

    tl_frame_begin(&frame, TL_TRACE);
    tl_put_u64(&frame, 1000000000000);
    struct tl_trace_line send = {4700000000, 4700001500, 0x0123456789abcdef, 4096, 3, 17, 41, 1, 2, 0, 2};
    tl_put_trace_line(&frame, &send);
    struct tl_trace_line wait = {4700002000, 4700902000, 0, 0, -1, 0, -1, 131, 1, 1, 0};
    tl_put_trace_line(&frame, &wait);
    good &= finish(folder, "trace");

    tl_frame_begin(&frame, TL_CLOCK);
    tl_put_u64(&frame, 7);
    tl_put_clock_point(&frame, 4600000000, -50000000, 6001, 12000);
    tl_put_clock_point(&frame, 4700000000, 50000123, 6001, 12000);
    good &= finish(folder, "clock");

    struct tl_traffic get = {3, 87, TL_TRAFFIC_READ, 4096, 2};
    struct tl_traffic message = {1, 17, TL_TRAFFIC_WIRE, 0x7fffffffffffffff, 9};
    tl_frame_begin(&frame, TL_TRAFFIC);
    tl_put_u64(&frame, 4950000000);
    tl_put_traffic(&frame, &get);
    tl_put_traffic(&frame, &message);
    good &= finish(folder, "traffic");

    tl_frame_begin(&frame, TL_GROUPS);
    tl_put_u64(&frame, 4950000000);
    size_t runs = tl_put_group(&frame, 7, 2, 6, 1, 0);
    tl_put_run(&frame, 9, -3, 4);
    tl_put_run(&frame, UINT32_MAX, 0, 2);
    tl_patch_u32(&frame, runs, 2);
    runs = tl_put_group(&frame, 8, 1, 100, UINT32_MAX, 50);
    tl_put_run(&frame, 50, 1, 50);
    tl_patch_u32(&frame, runs, 1);
    good &= finish(folder, "groups");

    struct tl_collective_sums bcast = {.group = 7, .operation = 15, .size_class = 14, .algorithm = 4, .source = TL_OBSERVED};
    bcast.root = 5;
    bcast.calls = 3;
    bcast.bytes = 24576;
    struct tl_collective_sums barrier = {.group = 8, .operation = 128, .source = TL_UNKNOWN, .root = UINT32_MAX, .calls = 4};
    tl_frame_begin(&frame, TL_COLLECTIVES);
    tl_put_u64(&frame, 4950000000);
    tl_put_collective(&frame, &bcast);
    tl_put_collective(&frame, &barrier);
    good &= finish(folder, "collectives");

    tl_frame_begin(&frame, TL_OWN_GROUPS);
    tl_put_u64(&frame, 4950000000);
    runs = tl_put_group(&frame, 8, 1, 3, 2, 0);
    tl_put_run(&frame, 5, 2, 3);
    tl_patch_u32(&frame, runs, 1);
    good &= finish(folder, "own_groups");

    struct tl_open_call hung = {.operation = 131, .thread = 2, .oldest = 10, .start = 4200000000};
    hung.peer = TL_OPEN_NO_PEER;
    hung.tag = TL_OPEN_NO_TAG;
    hung.pending = 3;
    hung.requests = 2;
    hung.oldest_peer = TL_OPEN_ANY_PEER;
    hung.oldest_tag = 12;
    struct tl_open_call open = {.operation = 15, .start = -7, .comm = TL_OPEN_IN_WORLD, .comm_size = 4, .peer = 3};
    open.tag = TL_OPEN_ANY_TAG;
    open.oldest_peer = TL_OPEN_NO_PEER;
    open.oldest_tag = TL_OPEN_NO_TAG;
    tl_frame_begin(&frame, TL_OPEN);
    tl_put_u64(&frame, 4950000000);
    tl_put_u32(&frame, 3);
    tl_put_u32(&frame, 1);
    tl_put_open_call(&frame, &hung);
    tl_put_open_call(&frame, &open);
    good &= finish(folder, "open");

    struct tl_sampled_call sampled = {.group = 7, .root = 5, .operation = 15, .size_class = 14, .algorithm = 4, .level = 3};
    sampled.call = 377;
    sampled.nanoseconds = 81500;
    tl_frame_begin(&frame, TL_SAMPLES);
    tl_put_u64(&frame, 4950000000);
    tl_put_sample(&frame, &sampled);
    good &= finish(folder, "samples");

    struct tl_sums timed = {.operation = 1, .size_class = 4, .calls = 3, .nanoseconds = 5000, .longest_nanoseconds = 3000};
    timed.least_share = 0x40000000; /* a quarter */
    tl_frame_begin(&frame, TL_OPS);
    bin = tl_put_bin(&frame, 4900000000);
    tl_put_cell(&frame, &timed);
    tl_patch_u32(&frame, bin, 1);
    good &= finish(folder, "ops_least");

    struct tl_region_sums path = {2, 1, 4000, 3500, 6, 1500};
    tl_frame_begin(&frame, TL_PATHS);
    tl_put_u64(&frame, 4950000000);
    tl_put_region(&frame, &path);
    good &= finish(folder, "paths");

    struct tl_account account = {.tid = 4712, .time = 4950000000, .began = 1000000000, .open = 4900000000, .in_mpi = 700000000};
    account.last = (struct tl_clock_reading){4890000000, 3100000000, 250000000};
    account.off_outside = 600000000;
    account.off_inside = 90000000;
    account.queued_outside = 200000000;
    account.queued_inside = 50000000;
    tl_frame_begin(&frame, TL_ACCOUNT);
    tl_put_account(&frame, &account);
    good &= finish(folder, "account");

    const uint32_t minors[] = {0, 3, 255};
    tl_frame_begin(&frame, TL_DEVICES);
    tl_field_u64(&frame, TL_DEVICES_TIME, 4950000000);
    tl_field_u64(&frame, TL_DEVICES_BEFORE, 3950000000);
    tl_field_text(&frame, TL_DEVICES_VISIBLE, "GPU-8932f937,3");
    tl_field_u32s(&frame, TL_DEVICES_OPEN, minors, 3);
    good &= finish(folder, "devices");

    tl_frame_begin(&frame, TL_DEVICES);
    tl_field_u64(&frame, TL_DEVICES_TIME, 4950000000);
    tl_field_u64(&frame, TL_DEVICES_BEFORE, 4950000000);
    tl_field_u32(&frame, TL_DEVICES_UNKNOWN, TL_DEVICES_TOO_MANY);
    good &= finish(folder, "devices_unknown");
    return good;
}

static int read_welcome(const char *path) {
    static uint8_t message[4096];
    FILE *file = fopen(path, "r");
    size_t length = 0;
    unsigned byte;
    while (file && length < sizeof message && fscanf(file, "%2x", &byte) == 1) message[length++] = (uint8_t)byte;
    if (file) fclose(file);
    struct tl_fields field;
    if (!tl_fields_open(&field, message, length, TL_WELCOME)) return 0;
    while (tl_fields_next(&field)) {
        if (field.tag == TL_WELCOME_PVARS) printf("%u %.*s\n", field.tag, (int)field.length, (const char *)field.data);
        else printf("%u %llu\n", field.tag, (unsigned long long)tl_fields_number(&field));
    }
    return field.at == field.end;
}

int main(int argc, char **argv) {
    if (argc == 2) return !write_all(argv[1]);
    if (argc == 3 && strcmp(argv[1], "--welcome") == 0) return !read_welcome(argv[2]);
    fprintf(stderr, "usage: golden FOLDER | golden --welcome FILE\n");
    return 64;
}
