! As freed.c, by the wrappers of mpi_f08: a callback uses the communicator that is being freed, and the next one is smaller. Not for Open
! MPI, whose bindings have given up its number by then.
module callbacks
  use mpi_f08
  implicit none
contains
  subroutine used(comm, key, value, extra, error)
    type(MPI_Comm) :: comm
    integer :: key, error
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    call MPI_Barrier(comm, error)
  end subroutine used
end module callbacks

program freed
  use mpi_f08
  use callbacks
  implicit none
  integer, parameter :: rounds = 20
  integer :: rank, key, i
  integer :: counts(2), places(2), from(2), to(2)
  integer(kind=MPI_ADDRESS_KIND) :: nothing
  type(MPI_Comm) :: all, pair
  nothing = 0
  counts = 1
  places = [0, 1]
  from = 7
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  do i = 1, rounds
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, used, key, nothing)
    call MPI_Comm_dup(MPI_COMM_WORLD, all)
    call MPI_Comm_set_attr(all, key, nothing)
    call MPI_Comm_free(all)
    call MPI_Comm_free_keyval(key)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, pair)
    call MPI_Alltoallv(from, counts, places, MPI_INTEGER, to, counts, places, MPI_INTEGER, pair)
    call MPI_Comm_free(pair)
  end do
  if (rank == 0) print '(a)', 'done'
  call MPI_Finalize()
end program freed
