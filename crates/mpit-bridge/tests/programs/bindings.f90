! Fortran's three bindings: mpif.h, the module mpi and the module mpi_f08, one allreduce of 80 bytes each, a
! bcast from rank 1 of 12 bytes, and an in-place allgather of 16 bytes.
subroutine oldest
  implicit none
  include 'mpif.h'
  integer :: error
  double precision :: mine(10), total(10)
  mine = 1
  call MPI_ALLREDUCE(mine, total, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
end subroutine

subroutine older
  use mpi
  implicit none
  integer :: error, half, rank
  double precision :: mine(10), total(10)
  integer :: few(3)
  mine = 1
  few = 0
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, half, error)
  call MPI_Allreduce(mine, total, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  ! Rank 0 of the reversed communicator is the last of the world.
  call MPI_Bcast(few, 3, MPI_INTEGER, 0, half, error)
  call MPI_Comm_free(half, error)
end subroutine

subroutine newest
  use mpi_f08
  implicit none
  double precision :: mine(10), total(10)
  integer :: gathered(64)
  mine = 1
  gathered = 0
  call MPI_Allreduce(mine, total, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, 4, MPI_INTEGER, MPI_COMM_WORLD)
end subroutine

program bindings
  use mpi
  implicit none
  integer :: error, rank
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call oldest
  call older
  call newest
  if (rank == 0) print '(a)', 'done'
  call MPI_Finalize(error)
end program
