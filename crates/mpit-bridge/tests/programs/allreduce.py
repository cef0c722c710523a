"""10 allreduces of 8 KiB from mpi4py; rank 0 prints the sum."""

import array

from mpi4py import MPI

world = MPI.COMM_WORLD
mine = array.array("d", [world.rank + 1] * 1024)
total = array.array("d", [0] * 1024)
for _ in range(10):
    world.Allreduce(mine, total)
if world.rank == 0:
    print("sum", int(total[-1]))
