// caliper: allreduces of 8 bytes within regions by Caliper's C++ classes.
#include "caliper_double.h"

#include <mpi.h>
#include <new>

static void calls(int times) {
    double one = 1, sum;
    while (times-- > 0) MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void step() {
    cali::Function function("step");
    calls(1);
    cali::ScopeAnnotation scope("scope");
    calls(2);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    step();
    step();
    {
        cali::Loop loop("loop");
        cali::Annotation iteration("iteration");
        for (int i = 0; i < 300; i++) { // more numbers than there are regions
            iteration.begin(i);
            if (i < 3) calls(1);
            iteration.end();
        }
        loop.end();
        calls(4); // outside
    }
    cali::Loop left("destroyed");
    left.~Loop();
    new (&left) cali::Loop("again");
    calls(5);
    left.end();
    cali::Annotation("phase").begin("solve"); // two objects of one name
    calls(6);
    cali::Annotation("phase").end();
    {
        cali::Annotation::MetadataListType none;
        cali::Annotation phase("phase", none);
        cali::Annotation::Guard guard(phase.begin("guarded"));
        calls(7);
    }
    cali_begin_comm_region("halo");
    calls(8);
    cali_end_comm_region("halo");
    calls(9); // outside
    if (rank == 0) caliper_print();
    MPI_Finalize();
    return 0;
}
