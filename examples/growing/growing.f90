! A list that is longer after each step. It is followed, and a restore has it allocated as long as it was saved.
! ANCHOR: functions
module lists
  use, intrinsic :: iso_c_binding
  implicit none
  real(c_double), allocatable, target :: list(:)
contains
  ! Where the list is.
  type(c_ptr) function where_list() bind(C)
    where_list = c_null_ptr
    if (size(list) > 0) where_list = c_loc(list)
  end function

  ! Gives it the shape that was saved.
  subroutine resize_list(dimensions, shape) bind(C)
    integer(c_int), value :: dimensions
    integer(c_int64_t), intent(in) :: shape(dimensions)
    deallocate (list)
    allocate (list(shape(1)))
  end subroutine
end module
! ANCHOR_END: functions

program growing
  use lists
  use mainstay
  implicit none
  type(mainstay_session) :: session
  integer(c_int64_t) :: step, stop, i

  step = 0
  allocate (list(0))
  call session%open_solo("space-f90")
  call session%protect("step", step)
  ! ANCHOR: follow
  call session%protect("list", list)
  call session%follow("list", where_list, resize=resize_list)
  call session%restore()
  ! ANCHOR_END: follow
  stop = step + 3
  do while (step < stop)
    step = step + 1
    ! ANCHOR: move
    list = [list, (real(step, c_double), i = 1, step)]
    call session%move("list", list)
    ! ANCHOR_END: move
    call session%checkpoint()
  end do
  call session%close()
  print '(a,i0,a,i0,a,i0)', "step ", step, ": ", size(list), " values, sum ", nint(sum(list))
end program
