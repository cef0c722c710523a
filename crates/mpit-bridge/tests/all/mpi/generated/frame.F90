! What stands around the generated statements; compiled with F77 (mpif.h), F90 (module mpi) or F08 defined, and
! with MPICH_4_0 where it is one. One thread.
#ifdef F08
#define HANDLE(kind) type(kind)
#else
#define HANDLE(kind) integer
#endif
program generated
#ifdef F08
  use mpi_f08
#endif
#ifdef F90
  use mpi
#endif
  implicit none
#ifdef F77
  include 'mpif.h'
#endif
  integer, parameter :: t = 1, WORDS = 262144, SHARED = 65536, NUMBER = 8
  HANDLE(MPI_Comm) :: comms(8,1)
  HANDLE(MPI_Win) :: windows(2,1)
  HANDLE(MPI_Group) :: groups(2,1)
  HANDLE(MPI_File) :: files(1)
  HANDLE(MPI_Datatype) :: types(5), many(NUMBER)
  HANDLE(MPI_Request) :: requests(NUMBER)
  HANDLE(MPI_Message) :: message
#ifdef F08
  type(MPI_Status) :: statuses(NUMBER)
#else
  integer :: statuses(MPI_STATUS_SIZE, NUMBER)
#endif
  integer, target, asynchronous :: out(WORDS,1), in(WORDS,1)
  integer, target, asynchronous :: memory(SHARED/4,2), attached(2097152)
  character(len=4096) :: names(1)
  integer :: ranks(8,1), sizes(8,1), root_between, indices(NUMBER), parts(NUMBER)
  integer :: sc(NUMBER), rc(NUMBER), sd(NUMBER), rd(NUMBER)
  integer(kind=MPI_COUNT_KIND) :: sc_c(NUMBER), rc_c(NUMBER)
  integer(kind=MPI_ADDRESS_KIND) :: sd_c(NUMBER), rd_c(NUMBER), addresses(NUMBER)
  logical :: flag
  ! MPICH 4.0's module mpi declares this argument of MPI_Parrived so.
#if defined(F90) && defined(MPICH_4_0)
  integer :: arrived
#else
  logical :: arrived
#endif
  integer :: i, ierr, which, done, mode, tests, rank, length

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, names(t))
  names(t) = trim(names(t)) // '/file.fortran'
  mode = ior(MPI_MODE_CREATE, MPI_MODE_RDWR)
  tests = 0
  out = 0
  in = 0
  memory = 0
  types(1) = MPI_BYTE
  types(2) = MPI_INTEGER
  types(3) = MPI_DOUBLE_PRECISION
  call MPI_Type_vector(3, 2, 5, MPI_INTEGER, types(4), ierr)
  call MPI_Type_contiguous(7, MPI_BYTE, types(5), ierr)
  call MPI_Type_commit(types(4), ierr)
  call MPI_Type_commit(types(5), ierr)
  call MPI_Buffer_attach(attached, 4 * size(attached), ierr)
  call set_up
  call work
  do i = 1, 2
    call MPI_Win_free(windows(i,t), ierr)
  end do
  do i = 1, 8
    if (comms(i,t) /= MPI_COMM_NULL) call MPI_Comm_free(comms(i,t), ierr)
  end do
  call MPI_Type_free(types(4), ierr)
  call MPI_Type_free(types(5), ierr)
  write (*, '(a,i0,a,i0)') 'tests ', rank, ' ', tests
  call MPI_Finalize(ierr)

contains

  subroutine wrong(what)
    character(len=*), intent(in) :: what
    write (0, *) 'unexpected ', what
    call MPI_Abort(MPI_COMM_WORLD, 71, ierr)
  end subroutine

  subroutine ready(request)
    HANDLE(MPI_Request), intent(in) :: request
    logical :: complete
    ! Open MPI's Fortran binding says "not complete", always, where no status is wanted.
#ifdef F08
    type(MPI_Status) :: unused
#else
    integer :: unused(MPI_STATUS_SIZE)
#endif
    complete = .false.
    do while (.not. complete)
      call MPI_Request_get_status(request, complete, unused, ierr)
    end do
  end subroutine

  subroutine set_up
    integer :: n, color, before(2), after(2), places(NUMBER), edges(2*NUMBER)
    call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
    call MPI_Comm_dup(MPI_COMM_WORLD, comms(1,t), ierr)
    call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, comms(2,t), ierr)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, comms(3,t), ierr)
    color = 0
    if (n > 1 .and. rank == n - 1) color = MPI_UNDEFINED
    call MPI_Comm_split(MPI_COMM_WORLD, color, rank, comms(4,t), ierr)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [n], [.false.], .false., comms(5,t), ierr)
    before = [mod(rank + 2*n - 1, n), mod(rank + 2*n - 2, n)]
    after = [mod(rank + 1, n), mod(rank + 2, n)]
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, before, MPI_UNWEIGHTED, 2, after, MPI_UNWEIGHTED, &
      MPI_INFO_NULL, .false., comms(6,t), ierr)
    do i = 1, n
      places(i) = 2*i
      edges(2*i - 1) = mod(i - 1 + n - 1, n)
      edges(2*i) = mod(i, n)
    end do
    call MPI_Graph_create(MPI_COMM_WORLD, n, places, edges, .false., comms(7,t), ierr)
    do i = 1, 7
      if (comms(i,t) == MPI_COMM_NULL) cycle
      call MPI_Comm_rank(comms(i,t), ranks(i,t), ierr)
      call MPI_Comm_size(comms(i,t), sizes(i,t), ierr)
    end do
    ! Even and odd ranks, if there are both; the leader of either is its highest rank.
    comms(8,t) = MPI_COMM_NULL
    if (n > 1) then
      color = n - 1
      if (mod(rank, 2) == mod(n - 1, 2)) color = n - 2
      call MPI_Intercomm_create(comms(3,t), 0, MPI_COMM_WORLD, color, 3, comms(8,t), ierr)
      call MPI_Comm_rank(comms(8,t), ranks(8,t), ierr)
      call MPI_Comm_remote_size(comms(8,t), sizes(8,t), ierr)
      root_between = 0
      if (mod(rank, 2) == 0) then
        root_between = MPI_PROC_NULL
        if (ranks(8,t) == 0) root_between = MPI_ROOT
      end if
    end if
    do i = 1, 2
      call MPI_Win_create(memory(1,i), int(SHARED, MPI_ADDRESS_KIND), 1, MPI_INFO_NULL, comms(i,t), windows(i,t), ierr)
      call MPI_Comm_group(comms(i,t), groups(i,t), ierr)
    end do
  end subroutine

  subroutine work
#include "statements.f90"
  end subroutine
end program
