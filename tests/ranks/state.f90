! state STEPS: state of Fortran that no program saves by itself. It has COMMON, saved variables, allocatables, and derived
! types with pointers. One formatted file is half read, and one is half written. A scratch file has no name. A
! direct-access file is removed at the end.

module kept
  implicit none
  type node
    integer :: number = 0
    real(8), allocatable :: cells(:)
    type(node), pointer :: next => null()
  end type
  type(node), pointer :: list => null()
  character(len=:), allocatable :: text
contains
  integer function calls()
    integer, save :: number = 0
    number = number + 1
    calls = number
  end function
end module

subroutine exchange(rank, ranks, cells, n)
  use mpi
  implicit none
  integer, intent(in) :: rank, ranks, n
  real(8), intent(inout) :: cells(n)
  real(8) :: arrived(n)
  integer :: requests(2), error
  call MPI_Irecv(arrived, n, MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 3, MPI_COMM_WORLD, requests(1), error)
  call MPI_Isend(cells, n, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 3, MPI_COMM_WORLD, requests(2), error)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  cells = 0.5d0*cells + 0.25d0*arrived
end subroutine

program state
  use mpi
  use kept
  implicit none
  common /carried/ edge, field, number
  real(8) :: edge, field(100), part, total, record(4)
  integer :: number, rank, ranks, error, steps, step, out, in, direct, scratch, got, i
  type(node), pointer :: one
  character(len=40) :: word
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, word)
  read (word, *) steps
  write (word, '(a,i0)') 'table.', rank
  open (newunit=in, file=trim(word)//'.in', status='replace', action='readwrite')
  do step = 1, steps
    write (in, '(i0,1x,f8.3,1x,a)') step*3, step*0.25d0, repeat('x', 40)
  end do
  rewind (in)
  open (newunit=out, file=trim(word)//'.out', status='replace', action='write')
  open (newunit=direct, file=trim(word)//'.direct', status='replace', access='direct', recl=32, form='unformatted')
  open (newunit=scratch, status='scratch', form='unformatted')
  edge = rank
  field = rank*0.125d0
  number = 0
  text = ''
  part = 0
  do step = 1, steps
    read (in, *) got, total
    field(mod(step, 100) + 1) = got + total
    call exchange(rank, ranks, field, 100)
    if (mod(step, 5) == 0) then
      allocate (one)
      one%number = step
      one%cells = field(1:mod(step, 90) + 1)
      one%next => list
      list => one
    end if
    if (len(text) > 60) text = ''
    text = text//achar(97 + mod(step, 26))
    record = [field(1), edge, real(step, 8), real(calls(), 8)]
    write (direct, rec=mod(step, 50) + 1) record
    write (scratch) step, record
    edge = 0.9d0*edge + sum(field)/100 + len(text)
    number = number + got
    write (out, '(i0,1x,es24.16,1x,a)') step, edge, text
  end do
  do i = 1, min(50, steps)
    read (direct, rec=mod(i, 50) + 1) record
    part = part + sum(record)
  end do
  rewind (scratch)
  do i = 1, steps
    read (scratch) got, record
    part = part + got + sum(record)
  end do
  one => list
  do while (associated(one))
    part = part + one%number + sum(one%cells)
    one => one%next
  end do
  close (scratch)
  close (in)
  close (out)
  close (direct, status='delete')
  part = part + edge + number + calls()
  call MPI_Reduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a,es24.16,a,i0,a)', 'sum', total, ' of ', ranks, ' ranks'
  call MPI_Finalize(error)
end program
