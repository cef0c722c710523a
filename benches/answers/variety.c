/* What the demo's program lacks, for the recorded input: regions within regions, a communicator with a name, a call that goes
 * on for long, one-sided transfers and many calls of one collective. */
#include <mpi.h>
#include <throughline.h>
#include <unistd.h>

enum { CALLS = 200, LONG_SECONDS = 5, BYTES = 4096 };

int main(int argc, char **argv) {
    static char here[BYTES], there[BYTES];
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_set_name(half, rank % 2 ? "odd" : "even");
    throughline_region_begin("solve");
    for (int i = 0; i < CALLS; i++) {
        throughline_region_begin("reduce/all");
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        throughline_region_end("reduce/all");
        usleep(rank == 1 ? 20000 : 10000);
        MPI_Bcast(here, BYTES, MPI_CHAR, 0, half);
    }
    throughline_region_end("solve");
    MPI_Win window;
    MPI_Win_create(here, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Get(there, BYTES, MPI_CHAR, (rank + 1) % size, 0, BYTES, MPI_CHAR, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    if (rank == 0) {
        sleep(LONG_SECONDS);
        for (int to = 1; to < size; to++) MPI_Send(here, BYTES, MPI_CHAR, to, 7, MPI_COMM_WORLD);
    } else {
        MPI_Recv(there, BYTES, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
