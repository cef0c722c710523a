/*
 * Messages of all kinds for trace mode, 4 ranks: each has a length of its own, so that a receive that is taken for
 * the wrong send shows. Known pauses: in each round rank 0 waits before it sends to ranks that already wait for it.
 *
 *   timeline ROUNDS PAUSE_MS     prints the number of messages received by each rank
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 4, LARGEST = 1 << 18, MANY = 4 };

static char out[LARGEST], in[MANY][LARGEST];
static int me, count;
static long received;

/* A length that no other message has. */
static int next_length(void) {
    int length = RANKS * ++count + me;
    if (length > LARGEST) MPI_Abort(MPI_COMM_WORLD, 1);
    return length;
}

static void send_to(int to, int tag, MPI_Comm comm) {
    MPI_Send(out, next_length(), MPI_CHAR, to, tag, comm);
}

static void ring(void) {
    MPI_Request both[2];
    MPI_Status statuses[2];
    MPI_Irecv(in[0], LARGEST, MPI_CHAR, (me + RANKS - 1) % RANKS, 1, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(out, next_length(), MPI_CHAR, (me + 1) % RANKS, 1, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, statuses);
    received++;
}

/* Rank 0 takes what comes; the others send two each. */
static void gathered(void) {
    if (me != 0) {
        send_to(0, 10 + me % 2, MPI_COMM_WORLD);
        send_to(0, 12, MPI_COMM_WORLD);
        return;
    }
    for (int i = 0; i < 2 * (RANKS - 1); i++, received++)
        MPI_Recv(in[0], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Several of one stream, observed complete from the last to the first; some of them by wildcards. */
static void backwards(MPI_Comm comm) {
    MPI_Request posted[MANY];
    if (me == 3)
        for (int i = 0; i < MANY; i++) send_to(2, i == 3 ? 8 : 7, comm);
    if (me == 1) send_to(2, 7, comm);
    if (me == 2) {
        MPI_Irecv(in[0], LARGEST, MPI_CHAR, 3, 7, comm, &posted[0]);
        MPI_Irecv(in[1], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, 7, comm, &posted[1]);
        MPI_Irecv(in[2], LARGEST, MPI_CHAR, 3, MPI_ANY_TAG, comm, &posted[2]);
        MPI_Irecv(in[3], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &posted[3]);
        for (int i = MANY - 1; i >= 0; i--, received++) MPI_Wait(&posted[i], MPI_STATUS_IGNORE);
        MPI_Recv(in[0], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        received++;
    }
    MPI_Barrier(comm);
}

static void exchanged(MPI_Comm pair) {
    int other, size;
    MPI_Comm_rank(pair, &other);
    MPI_Comm_size(pair, &size);
    other = size - 1 - other;
    MPI_Sendrecv(out, next_length(), MPI_CHAR, other, 3, in[0], LARGEST, MPI_CHAR, other, 3, pair, MPI_STATUS_IGNORE);
    received++;
}

static void probed(void) {
    MPI_Message message;
    MPI_Status status;
    int length;
    if (me == 1) send_to(0, 20, MPI_COMM_WORLD), send_to(0, 20, MPI_COMM_WORLD);
    if (me != 0) return;
    MPI_Mprobe(1, 20, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_CHAR, &length);
    MPI_Mrecv(in[0], length, MPI_CHAR, &message, MPI_STATUS_IGNORE);
    MPI_Recv(in[0], LARGEST, MPI_CHAR, 1, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    received += 2;
}

static void paused(int milliseconds) {
    if (me == 0) {
        usleep((useconds_t)milliseconds * 1000);
        for (int to = 1; to < RANKS; to++) send_to(to, 30, MPI_COMM_WORLD);
    } else {
        MPI_Recv(in[0], LARGEST, MPI_CHAR, 0, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        received++;
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1, pause_ms = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Comm same, pair, across;
    MPI_Request persistent[2];
    MPI_Status statuses[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    MPI_Comm_split(same, me % 2, -me, &pair);
    MPI_Intercomm_create(pair, 0, MPI_COMM_WORLD, 3 - me % 2, 5, &across);
    int length = next_length();
    MPI_Send_init(out, length, MPI_CHAR, (me + 1) % RANKS, 40, same, &persistent[0]);
    MPI_Recv_init(in[1], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, 40, same, &persistent[1]);
    for (int round = 0; round < rounds; round++) {
        paused(pause_ms);
        ring();
        gathered();
        backwards(round % 2 ? same : MPI_COMM_WORLD);
        exchanged(pair);
        probed();
        MPI_Startall(2, persistent);
        MPI_Waitall(2, persistent, statuses);
        received++;
        int place;
        MPI_Comm_rank(across, &place);
        MPI_Sendrecv(out, next_length(), MPI_CHAR, place, 50, in[0], LARGEST, MPI_CHAR, place, 50, across,
                     MPI_STATUS_IGNORE);
        received++;
    }
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    MPI_Comm_free(&across);
    MPI_Comm_free(&pair);
    MPI_Comm_free(&same);
    printf("%d received %ld\n", me, received);
    MPI_Finalize();
    return 0;
}
