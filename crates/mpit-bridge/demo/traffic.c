/*
 * traffic: a small MPI program whose traffic is worth looking at. Neighbouring even/odd ranks exchange
 * much (the heavy pairs), a ring carries little, and collectives of a few sizes run in between, so that
 * a rank x rank matrix shows which pairs dominate. Its two parts have names (regions). It must stay plain MPI-2: any
 * library runs it.
 *
 *   traffic [--seconds S | --rounds N] [--pair-bytes B] [--pause-ms M] [--quiet]
 *
 * With --rounds the traffic is exactly known: see each step's comment for what one round sends.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "throughline.h"

enum {
    RING_BYTES = 4096,        /* to the next rank, once a round */
    ALLREDUCE_BYTES = 8192,   /* once a round */
    ALLTOALL_BYTES = 512,     /* a block, once a round */
    BCAST_BYTES = 65536,      /* from rank 0, every tenth round */
    PAIR_MESSAGES = 4,        /* of --pair-bytes each, both ways between 2k and 2k+1, once a round */
    TAG_PAIR = 1,
    TAG_RING = 2
};

struct options {
    double seconds;
    long rounds;
    int pair_bytes;
    long pause_ms;
    int quiet;
};

static int usage(const char *program) {
    fprintf(stderr,
            "usage: %s [--seconds S | --rounds N] [--pair-bytes B] [--pause-ms M] [--quiet]\n"
            "Uneven MPI traffic: heavy pairs (0,1) (2,3) ..., a light ring, collectives.\n",
            program);
    return 64;
}

static int parse(int argc, char **argv, struct options *o) {
    *o = (struct options){.seconds = 5.0, .rounds = 0, .pair_bytes = 262144, .pause_ms = 0, .quiet = 0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quiet") == 0) {
            o->quiet = 1;
            continue;
        }
        if (i + 1 >= argc) return 64;
        const char *value = argv[i + 1];
        char *end = NULL;
        if (strcmp(argv[i], "--seconds") == 0) o->seconds = strtod(value, &end);
        else if (strcmp(argv[i], "--rounds") == 0) o->rounds = strtol(value, &end, 10);
        else if (strcmp(argv[i], "--pair-bytes") == 0) o->pair_bytes = (int)strtol(value, &end, 10);
        else if (strcmp(argv[i], "--pause-ms") == 0) o->pause_ms = strtol(value, &end, 10);
        else return 64;
        if (end == value || *end != '\0' || o->pair_bytes < 0 || o->rounds < 0) return 64;
        i++;
    }
    return 0;
}

/* Both ways between ranks 2k and 2k+1: PAIR_MESSAGES of pair_bytes; the pair (0,1) gets twice as many. */
static void heavy_pairs(int rank, int size, const struct options *o, char *out, char *in) {
    int peer = rank ^ 1;
    if (peer >= size) return;
    int messages = rank < 2 ? 2 * PAIR_MESSAGES : PAIR_MESSAGES;
    for (int m = 0; m < messages; m++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(in, o->pair_bytes, MPI_BYTE, peer, TAG_PAIR, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, o->pair_bytes, MPI_BYTE, peer, TAG_PAIR, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
    }
}

static void one_round(int rank, int size, long round, const struct options *o, char *out, char *in,
                      double *sums) {
    throughline_region_begin("neighbours");
    heavy_pairs(rank, size, o, out, in);
    MPI_Sendrecv(out, RING_BYTES, MPI_BYTE, (rank + 1) % size, TAG_RING, in, RING_BYTES, MPI_BYTE,
                 (rank + size - 1) % size, TAG_RING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    throughline_region_end("neighbours");
    throughline_region_begin("everybody");
    MPI_Allreduce(out, sums, ALLREDUCE_BYTES / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoall(out, ALLTOALL_BYTES, MPI_BYTE, in, ALLTOALL_BYTES, MPI_BYTE, MPI_COMM_WORLD);
    if (round % 10 == 0) MPI_Bcast(in, BCAST_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
    throughline_region_end("everybody");
    if (o->pause_ms > 0) {
        struct timespec pause = {o->pause_ms / 1000, (o->pause_ms % 1000) * 1000000L};
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    struct options o;
    if (parse(argc, argv, &o) != 0) {
        int status = rank == 0 ? usage(argv[0]) : 64;
        MPI_Finalize();
        return status;
    }
    size_t need = (size_t)ALLTOALL_BYTES * (size_t)size;
    if (need < BCAST_BYTES) need = BCAST_BYTES;
    if (need < (size_t)o.pair_bytes) need = (size_t)o.pair_bytes;
    char *out = calloc(1, need), *in = calloc(1, need);
    double *sums = calloc(1, ALLREDUCE_BYTES);
    if (!out || !in || !sums) {
        fprintf(stderr, "traffic: no memory for %zu bytes\n", need);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

    double start = MPI_Wtime();
    long round = 0;
    for (int go = 1; go;) {
        one_round(rank, size, round++, &o, out, in, sums);
        /* Rank 0's clock decides for all; with --rounds nothing more is sent. */
        if (o.rounds > 0) {
            go = round < o.rounds;
        } else {
            go = MPI_Wtime() - start < o.seconds;
            MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0 && !o.quiet)
        printf("traffic: %d ranks, %ld rounds, %.2f s\n", size, round, MPI_Wtime() - start);
    free(sums);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
