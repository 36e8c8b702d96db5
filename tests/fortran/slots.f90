! An MPI program in Fortran that knows nothing of Mainstay: slots STEPS HOLD FILE. Its state is in a COMMON block, a module
! and a file that it has half written. One part uses the module mpi, one mpi_f08, one mpif.h.

module state
  implicit none
  integer, parameter :: cells = 1000
  real(8), allocatable :: field(:)
end module

subroutine exchange(rank, ranks, edge)
  use mpi_f08
  implicit none
  integer, intent(in) :: rank, ranks
  real(8), intent(inout) :: edge
  type(MPI_Status) :: status
  real(8) :: arrived
  call MPI_Sendrecv(edge, 1, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 3, &
                    arrived, 1, MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 3, MPI_COMM_WORLD, status)
  edge = arrived
end subroutine

subroutine total_of(part, total)
  implicit none
  include 'mpif.h'
  real(8) part, total
  integer error
  call MPI_REDUCE(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
end subroutine

program slots
  use mpi
  use state
  implicit none
  common /carried/ edge, number
  real(8) :: edge, part, total, read_back
  integer :: number, rank, ranks, error, steps, at, unit, goes_on, step
  logical :: is_there
  character(len=200) :: word, file
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, word)
  read (word, *) steps
  call get_command_argument(2, word)
  read (word, *) at
  call get_command_argument(3, file)
  allocate (field(cells), source=0d0)
  write (word, '(a,i0)') 'part.', rank
  open (newunit=unit, file=word, status='replace', action='readwrite')
  edge = rank
  number = 0
  do step = 0, steps - 1
    call exchange(rank, ranks, edge)
    field = 0.5d0*field + 1d-3*edge
    edge = 0.5d0*edge + sum(field)/cells + rank
    number = number + 1
    write (unit, '(es24.16)') edge
    if (step == at) then
      if (rank == 0) print '(a)', 'hold'
      flush (6)
      goes_on = 0
      do while (goes_on == 0)
        if (rank == 0) then
          inquire (file=file, exist=is_there)
          if (is_there) goes_on = 1
        end if
        call MPI_Bcast(goes_on, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
      end do
    end if
  end do
  rewind (unit)
  part = sum(field) + number
  do step = 1, steps
    read (unit, *) read_back
    part = part + read_back
  end do
  close (unit)
  call total_of(part, total)
  if (rank == 0) print '(a,es24.16,a,i0,a)', 'sum', total, ' of ', ranks, ' ranks'
  call MPI_Finalize(error)
end program
