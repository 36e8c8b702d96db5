! c/levels.c in Fortran: two time levels behind pointers, two allocatables that move_alloc swaps, one of them a section
! with ghost cells around it, and a list that grows.
!
!     levels SPACE FROM TO follow|address
module fields
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  integer, parameter :: cells = 30000, rows = 30
  real(real64), pointer :: cur(:), prev(:), next(:), spare(:)
  real(real64), allocatable, target :: plate(:, :), other(:, :), third(:, :), list(:)
contains
  type(c_ptr) function where_list() bind(C)
    where_list = c_null_ptr
    if (size(list) > 0) where_list = c_loc(list)
  end function

  subroutine resize_list(dimensions, shape) bind(C)
    integer(c_int), value :: dimensions
    integer(c_int64_t), intent(in) :: shape(dimensions)
    deallocate (list)
    allocate (list(shape(1)))
  end subroutine

  type(c_ptr) function where_cur() bind(C)
    where_cur = c_loc(cur)
  end function

  type(c_ptr) function where_prev() bind(C)
    where_prev = c_loc(prev)
  end function

  type(c_ptr) function where_plate() bind(C)
    where_plate = c_loc(plate(1, 1))
  end function
end module

program levels
  use mpi
  use mainstay
  use fields
  use, intrinsic :: iso_c_binding, only: c_int64_t, c_null_ptr
  implicit none
  integer, target :: step = 0
  integer :: rank, from, to, error, i
  real(real64), allocatable, target :: longer(:)
  integer(c_int64_t), allocatable :: shape(:)
  integer(c_int64_t) :: bytes
  character(1000) :: text
  type(mainstay_session) :: session

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  from = number(2)
  to = number(3)
  allocate (cur(cells), prev(cells), next(cells), plate(0:rows + 1, 0:rows), other(0:rows + 1, 0:rows), list(0))
  cur = [(real(mod(i * 37, 101) + rank, real64), i = 1, cells)]
  prev = [(real(mod(i * 17, 103), real64), i = 1, cells)]
  next = 0
  plate = 1
  other = 0

  call get_command_argument(1, text)
  call session%open(MPI_COMM_WORLD, text)
  call session%protect("step", step)
  call session%protect("cur", cur)
  call session%protect("prev", prev)
  call session%protect("plate", plate(1:rows, 1:))
  call session%protect("list", list)
  call get_command_argument(4, text)
  if (text == "follow") then
    call session%follow("cur", where_cur)
    call session%follow("prev", where_prev)
    call session%follow("plate", where_plate)
  end if
  ! It has a number for each step: as many as the restore says, or as are asked for before.
  if (text == "follow") then
    call session%follow("list", where_list, resize=resize_list)
  else if (session%saved("list", shape, bytes)) then
    if (size(shape) /= 1 .or. shape(1) /= from .or. bytes /= 8 * from) error stop "another list"
    deallocate (list)
    allocate (list(shape(1)))
    call session%move("list", list)
  else if (from > 0) then
    error stop "no list"
  end if
  call session%restore()
  if (step /= from) error stop "another step"

  do while (step < to)
    next(2:cells - 1) = 2 * cur(2:cells - 1) - prev(2:cells - 1) &
                        + 0.25_real64 * (cur(:cells - 2) - 2 * cur(2:cells - 1) + cur(3:))
    next(1) = cur(1)
    next(cells) = cur(cells)
    spare => prev
    prev => cur
    cur => next
    next => spare
    other(1:rows, 1:) = 0.5_real64 * plate(1:rows, 1:) + step
    call move_alloc(plate, third)
    call move_alloc(other, plate)
    call move_alloc(third, other)
    step = step + 1
    allocate (longer(step))
    longer(:step - 1) = list
    longer(step) = cur(cells / 2)
    call move_alloc(longer, list)
    call session%move("list", list)
    call session%checkpoint()
  end do
  call session%close()
  print "(a, i0, a, 4es25.17)", "rank ", rank, ":", weighed(cur), weighed(prev), weighed(list), sum(plate(1:rows, 1:))
  call MPI_Finalize(error)

contains

  integer function number(argument)
    integer, intent(in) :: argument
    character(20) :: word
    call get_command_argument(argument, word)
    read (word, *) number
  end function

  real(real64) function weighed(values)
    real(real64), intent(in) :: values(:)
    integer :: k
    weighed = sum(values * [(mod(k, 7) + 1, k = 1, size(values))])
  end function
end program
