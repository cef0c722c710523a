/* An MPI program that calls MPI in a first region, is quiet until a file appears, calls it again in a second region, and ends when another
 * file appears: with MPI_Finalize, or without.   program FOLDER finalize|gone */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "throughline.h"

static double from[1024], to[1024];

static void work(const char *region, int calls) {
    throughline_region_begin(region);
    for (int i = 0; i < calls; i++) MPI_Allreduce(from, to, 1024, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    throughline_region_end(region);
}

static void wait_for(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (access(path, F_OK) != 0) usleep(50000);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    MPI_Init(&argc, &argv);
    work("init", 60);
    int rank;
    char path[4096];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s/ready-%d", argv[1], rank);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    wait_for(argv[1], "again");
    if (strcmp(argv[2], "finalize") == 0) work("solve", 40);
    wait_for(argv[1], "end");
    if (strcmp(argv[2], "finalize") != 0) _exit(0);
    MPI_Finalize();
    return 0;
}
