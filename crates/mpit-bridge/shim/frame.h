/*
 * Frames of the shim's protocol (protocol/README.md): one frame is one SOCK_SEQPACKET message, little-endian.
 * This file only lays bytes out; it knows neither sockets nor MPI, so that tests can build golden frames.
 */
#ifndef THROUGHLINE_FRAME_H
#define THROUGHLINE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum {
    TL_MAGIC = 0x314d4c54, /* "TLM1" */
    TL_PROTOCOL = 2,
    TL_HEADER_BYTES = 32,
    TL_FRAME_LIMIT = 60 * 1024, /* a message has to fit the smallest usual socket buffer several times */
    TL_CELL_BYTES = 64,
    TL_BIN_BYTES = 16,
    TL_PEER_BYTES = 24,
    TL_TRAFFIC_BYTES = 24,
    TL_GROUP_BYTES = 24, /* before the runs */
    TL_RUN_BYTES = 12,
    TL_COLLECTIVE_BYTES = 32,
    TL_SAMPLE_BYTES = 32,
    TL_REGION_BYTES = 48,
    TL_NAME_BYTES = 16, /* before the text */
    TL_NAME_LIMIT = 255 /* bytes of a text */
};

enum tl_frame_type {
    TL_HELLO = 1,
    TL_WELCOME = 2,
    TL_OPS = 3,
    TL_PEERS = 4,
    TL_PVARS = 5,
    TL_STATUS = 6,
    TL_BYE = 7,
    TL_NAMES = 8,
    TL_REGIONS = 9,
    TL_TRAFFIC = 10,
    TL_GROUPS = 11,
    TL_COLLECTIVES = 12,
    TL_OWN_GROUPS = 13,
    TL_TRACE = 16,
    TL_CLOCK = 17,
    TL_SAMPLES = 18,
    TL_PATHS = 19,
    TL_BYPASS = 20,
    TL_ACCOUNT = 21,
    TL_OPEN = 22, /* 14 is no more */
    TL_DEVICES = 23
};

/* Fields of HELLO: tag, length, bytes. */
enum tl_hello_field {
    TL_HELLO_PID = 1,      /* u32 */
    TL_HELLO_RANK = 2,     /* u32, in MPI_COMM_WORLD */
    TL_HELLO_SIZE = 3,     /* u32 */
    TL_HELLO_EPOCH = 4,    /* i64, UTC nanoseconds at MPI_Init */
    TL_HELLO_HOST = 5,     /* text */
    TL_HELLO_LIBRARY = 6,  /* text, first line of MPI_Get_library_version */
    TL_HELLO_SHIM = 7,     /* text */
    TL_HELLO_VARIABLE = 8, /* text NAME=VALUE, repeated */
    TL_HELLO_LAUNCHER = 9, /* text, the same in all ranks that one launcher started */
    TL_HELLO_THREADS = 10, /* u32, thread level provided by MPI */
    TL_HELLO_TICKS = 11    /* text, clock used around calls */
};

enum tl_welcome_field {
    TL_WELCOME_BIN_MS = 1,  /* u32 */
    TL_WELCOME_PUSH_MS = 2, /* u32 */
    TL_WELCOME_PVARS = 3,   /* text, names separated by commas */
    TL_WELCOME_PEER_BYTES = 4, /* u64, peers below it are not sent until the end */
    TL_WELCOME_WIRE = 5, /* u32, 1: messages that really went are wanted */
    TL_WELCOME_TRACE = 16,         /* u32: 0 nobody traces, 1 ranks that request it, 2 all */
    TL_WELCOME_TRACE_RATE = 17,    /* u64, records a second of a rank */
    TL_WELCOME_TRACE_RECORDS = 18  /* u64, records of a job; each rank has its share of them */
};

/* Fields of STATUS and BYE: u64 sums since MPI_Init; BYE begins with the reason. */
enum tl_status_field {
    TL_STATUS_FRAMES_LOST = 1,
    TL_STATUS_UNKNOWN_MESSAGES = 2,
    TL_STATUS_THREADS_REFUSED = 3,
    TL_STATUS_CONNECTIONS = 4,
    TL_STATUS_PVARS_MISSING = 5,
    TL_STATUS_REGIONS_REFUSED = 6,
    TL_STATUS_REGIONS_MISMATCHED = 7,
    TL_STATUS_CALLS_LOST = 8,
    TL_STATUS_REASON = 32,
    TL_STATUS_REQUESTS_UNTRACKED = 48,
    TL_STATUS_BINS_MERGED = 49
};
/* Fields of DEVICES. */
enum tl_devices_field {
    TL_DEVICES_TIME = 1,    /* i64, CLOCK_MONOTONIC nanoseconds of the look */
    TL_DEVICES_BEFORE = 2,  /* i64, of the look before; of the first one the same */
    TL_DEVICES_OPEN = 3,    /* u32s: N of each /dev/nvidiaN that is open */
    TL_DEVICES_VISIBLE = 4, /* text, CUDA_VISIBLE_DEVICES */
    TL_DEVICES_UNKNOWN = 5  /* u32, in place of the list */
};
enum tl_devices_unknown { TL_DEVICES_UNREADABLE = 1, TL_DEVICES_TOO_MANY = 2 };
/* Fields of BYPASS, which is sent in the place of HELLO, or before it. */
enum tl_bypass_field {
    TL_BYPASS_HOW = 1,    /* u32 */
    TL_BYPASS_PROGRAM = 2, /* text */
    TL_BYPASS_FUNCTIONS = 3 /* text */
};
enum tl_bypass { TL_BYPASS_LOOKED_UP = 1, TL_BYPASS_INSIDE = 2, TL_BYPASS_TOOL = 3 }; /* the second is throughline-exec's */
enum tl_bye_reason { TL_BYE_FINALIZE = 1, TL_BYE_EXIT = 2 };

struct tl_frame {
    size_t length;
    int overflow; /* something did not fit and was left out */
    uint8_t bytes[TL_FRAME_LIMIT];
};

void tl_frame_begin(struct tl_frame *frame, enum tl_frame_type type);
void tl_frame_end(struct tl_frame *frame, uint32_t sequence, int64_t monotonic, int64_t realtime);
void tl_put(struct tl_frame *frame, const void *data, size_t length);
void tl_put_u16(struct tl_frame *frame, uint16_t value);
void tl_put_u32(struct tl_frame *frame, uint32_t value);
void tl_put_u64(struct tl_frame *frame, uint64_t value);
void tl_patch_u32(struct tl_frame *frame, size_t at, uint32_t value);
void tl_field(struct tl_frame *frame, uint16_t tag, const void *data, size_t length);
void tl_field_u32(struct tl_frame *frame, uint16_t tag, uint32_t value);
void tl_field_u64(struct tl_frame *frame, uint16_t tag, uint64_t value);
void tl_field_text(struct tl_frame *frame, uint16_t tag, const char *text);
void tl_field_u32s(struct tl_frame *frame, uint16_t tag, const uint32_t *values, size_t count); /* at most 64 */

/* Bin of an OPS frame: its end and the number of cells, patched when they are known. */
size_t tl_put_bin(struct tl_frame *frame, int64_t end_monotonic);
/* Sums of one cell as an OPS frame has them. */
enum tl_algorithm_source { TL_NO_ALGORITHM, TL_UNKNOWN, TL_OBSERVED, TL_PVAR, TL_FORCED };
enum tl_cell_flag { TL_CELL_HAS_WAIT = 1, TL_CELL_HAS_RECEIVED = 2 };
struct tl_sums {
    uint16_t operation, size_class, region, algorithm, source, flags;
    uint32_t least_share; /* of the nanoseconds, in 2^-32, what calls as short as the shortest of their bin take; 0: not known */
    uint64_t calls, bytes, nanoseconds, longest_nanoseconds, wait_nanoseconds, received_bytes;
};
void tl_put_cell(struct tl_frame *frame, const struct tl_sums *sums);

enum tl_peer_kind { TL_LOGICAL = 0, TL_WIRE = 1, TL_READ = 2, TL_PEER_KINDS };
void tl_put_peer(struct tl_frame *frame, enum tl_peer_kind kind, uint32_t peer, uint64_t bytes, uint64_t messages);

/* Traffic of one operation with one peer. */
enum tl_traffic_kind { TL_TRAFFIC_SENT = 0, TL_TRAFFIC_READ = 1, TL_TRAFFIC_WIRE = 2 };
struct tl_traffic {
    uint32_t peer;
    uint16_t operation, kind;
    uint64_t bytes, messages;
};
void tl_put_traffic(struct tl_frame *frame, const struct tl_traffic *entry);

/* Members of a group from the number `first` on: returns where the number of runs is to be patched, which follow. */
size_t tl_put_group(struct tl_frame *frame, uint32_t number, uint32_t generation, uint32_t size, uint32_t rank,
                    uint32_t first);
void tl_put_run(struct tl_frame *frame, uint32_t start, int32_t stride, uint32_t count);

struct tl_collective_sums {
    uint32_t group;
    uint16_t operation, size_class, algorithm, source;
    uint32_t root;
    uint64_t calls, bytes;
};
void tl_put_collective(struct tl_frame *frame, const struct tl_collective_sums *sums);

/* One call of a collective. */
struct tl_sampled_call {
    uint32_t group, root;
    uint16_t operation, size_class, algorithm;
    uint16_t level; /* it stands for 2^level calls */
    uint64_t call, nanoseconds;
};
void tl_put_sample(struct tl_frame *frame, const struct tl_sampled_call *sample);

/* A call that a thread is in, or a row of polls that fail. */
enum {
    TL_OPEN_IN_WORLD = 0xffffffff,
    TL_OPEN_NO_PEER = 0xffffffff,
    TL_OPEN_ANY_PEER = 0xfffffffe,
    TL_OPEN_ANY_TAG = -1,
    TL_OPEN_NO_TAG = -2
};
struct tl_open_call {
    uint16_t operation, thread;
    uint16_t oldest;    /* operation that began the request it waits for, of several the thread's oldest pending one; 0: there is none */
    int64_t start;      /* CLOCK_MONOTONIC, nanoseconds */
    uint32_t comm;      /* number of the communicator's name, TL_OPEN_IN_WORLD, or 0: it has none, or is not known */
    uint32_t comm_size; /* 0: not known */
    uint32_t peer;      /* world rank, TL_OPEN_ANY_PEER, or TL_OPEN_NO_PEER */
    uint32_t pending;   /* the thread's pending requests */
    int32_t tag;        /* of a message, TL_OPEN_ANY_TAG, or TL_OPEN_NO_TAG */
    uint32_t requests;  /* how many it waits for or tests */
    uint32_t oldest_peer; /* of the oldest request, as `peer` */
    int32_t oldest_tag;
};
void tl_put_open_call(struct tl_frame *frame, const struct tl_open_call *call);

/* Where the time of the thread went that called MPI_Init (stretches.h). Nanoseconds, times of CLOCK_MONOTONIC. */
struct tl_clock_reading {
    int64_t time, cpu;
    uint64_t queued; /* the kernel's sum of waiting for a processor */
};
struct tl_account {
    uint32_t tid;                     /* as the process sees it */
    int64_t time, began;              /* now; the end of MPI_Init */
    int64_t open;                     /* when the call began that it is in; 0: it is in none */
    uint64_t in_mpi;                  /* in the calls before */
    struct tl_clock_reading last;     /* of the thread's clock */
    uint64_t off_outside, off_inside; /* off the processor, until that reading */
    uint64_t queued_outside, queued_inside; /* of that: could have run */
};
void tl_put_account(struct tl_frame *frame, const struct tl_account *account);

/* What a number means; see names.c. The text is cut at TL_NAME_LIMIT. */
void tl_put_name(struct tl_frame *frame, uint16_t kind, uint32_t number, uint32_t size, uint32_t place,
                 const char *text);

/* Of a region, or of a path of regions: one entry of a REGIONS or PATHS frame. */
struct tl_region_sums {
    uint32_t number;
    uint64_t visits, nanoseconds, own_nanoseconds, mpi_calls, mpi_nanoseconds;
};
void tl_put_region(struct tl_frame *frame, const struct tl_region_sums *sums);

/* Trace mode: one record of a TRACE frame, whose body begins with the number of the first; one comparison of
 * clocks of a CLOCK frame, which begins likewise. Times are of the rank's own clock. */
enum { TL_TRACE_RECORD_BYTES = 56 };
struct tl_trace_line {
    int64_t start, end;
    uint64_t comm, bytes;
    int32_t peer, tag, sequence;
    uint16_t operation, kind, thread, region;
};
void tl_put_trace_line(struct tl_frame *frame, const struct tl_trace_line *line);
void tl_put_clock_point(struct tl_frame *frame, int64_t time, int64_t offset, int64_t uncertainty, int64_t round_trip);

/* Reads fields of a received body one after the other; 0 at the end or where a length is wrong. */
struct tl_fields {
    const uint8_t *at, *end;
    uint16_t tag;
    const uint8_t *data;
    size_t length;
};
int tl_fields_open(struct tl_fields *fields, const uint8_t *message, size_t length, enum tl_frame_type type);
int tl_fields_next(struct tl_fields *fields);
uint64_t tl_fields_number(const struct tl_fields *fields);

#pragma GCC visibility pop

#endif
