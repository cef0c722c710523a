/* regions: allreduces of 8 bytes within regions of every kind, also wrongly ended ones; a named communicator. */
#include <mpi.h>
#include <stdio.h>

#include "../../include/throughline.h"

void cali_begin_region(const char *name);
void cali_end_region(const char *name);
int nvtxRangePushA(const char *message);
int nvtxRangePop(void);
void annotations_print(void);

static MPI_Comm comm = MPI_COMM_WORLD;

static void calls(int times) {
    double one = 1, sum;
    while (times-- > 0) MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
}

int main(int argc, char **argv) {
    char name[32];
    int rank;
    throughline_region_begin("whole"); /* before MPI is there */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    calls(1);
    throughline_region_begin("solve");
    calls(10);
    throughline_region_begin("halo");
    calls(3);
    throughline_region_begin("solve"); /* again within itself: its time counts once */
    calls(2);
    throughline_region_end("solve");
    throughline_region_end("halo");
    calls(1);
    throughline_region_end("solve");
    throughline_region_begin("halo");
    calls(4);
    throughline_region_end(NULL);
    throughline_region_end("never begun");
    throughline_region_begin("left");
    throughline_region_begin("open");
    throughline_region_end("left"); /* ends "open" too */
    throughline_region_end("whole");
    calls(5); /* outside of all */
    MPI_Pcontrol(2);
    calls(6);
    MPI_Pcontrol(3);
    calls(7);
    MPI_Pcontrol(1);
    cali_begin_region("caliper");
    calls(8);
    nvtxRangePushA("nvtx");
    calls(9);
    nvtxRangePop();
    cali_end_region("caliper");
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many %d", i);
        throughline_region_begin(name);
        throughline_region_end(name);
    }
    for (int i = 0; i < 36 * 36; i++) { /* more paths than are recorded */
        char inner[32];
        snprintf(name, sizeof name, "many %d", i / 36);
        snprintf(inner, sizeof inner, "many %d", i % 36);
        throughline_region_begin(name);
        throughline_region_begin(inner);
        if (i == 36 * 36 - 1) calls(1); /* counts in the path around it */
        throughline_region_end(inner);
        throughline_region_end(name);
    }
    MPI_Comm split;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &split);
    comm = split;
    calls(1);
    MPI_Comm_set_name(split, "rows");
    MPI_Comm_free(&split);
    if (rank == 0) annotations_print();
    if (rank == 0) puts(throughline_available() ? "there" : "not there");
    MPI_Finalize();
    return 0;
}
