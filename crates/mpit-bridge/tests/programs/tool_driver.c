/*
 * tool_driver: allreduces over the stub with MPI_T, in phases of one algorithm and of both. Between phases it waits until
 * the shim has read the counters several times, so that a bin ends there whatever the machine does meanwhile.
 */
#include <stdio.h>
#include <unistd.h>

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Allreduce(const void *, void *, int, int, int, int);
int stub_tool_reads(void);

enum { WORLD = 0x44000000, DOUBLE = 0x4c00080b, SUM = 0x58000003, READS = 8, PATIENCE_MS = 60000 };

static int settle(void) {
    int until = stub_tool_reads() + READS;
    for (int i = 0; i < PATIENCE_MS && stub_tool_reads() < until; i++) usleep(1000);
    return stub_tool_reads() >= until;
}

int main(int argc, char **argv) {
    static double out[1024], in[1024];
    int provided, good;
    MPI_Init_thread(&argc, &argv, 0, &provided);
    good = settle();
    for (int i = 0; i < 100; i++) MPI_Allreduce(out, in, 1, DOUBLE, SUM, WORLD);
    good &= settle();
    for (int i = 0; i < 40; i++) MPI_Allreduce(out, in, 1024, DOUBLE, SUM, WORLD);
    good &= settle();
    for (int i = 0; i < 10; i++) {
        MPI_Allreduce(out, in, 2, DOUBLE, SUM, WORLD);
        MPI_Allreduce(out, in, 512, DOUBLE, SUM, WORLD);
    }
    good &= settle();
    puts(good ? "done" : "the shim does not read");
    return MPI_Finalize();
}
