! Pointers of a module to memory of the heap: lists and arrays that come back where they were.
!
!     heap SPACE STEPS
module lists
  use mainstay
  use, intrinsic :: iso_c_binding
  implicit none
  type :: body
    real(8) :: x
    type(body), pointer :: next
  end type
  type(body), pointer :: first => null()
  real(8), pointer :: field(:) => null()
  integer :: done = 0

contains

  subroutine advance
    type(body), pointer :: one
    integer :: i
    done = done + 1
    call c_f_pointer(mainstay_heap_calloc(1_c_size_t, c_sizeof_body()), one)
    one%x = done
    one%next => first
    first => one
    if (mod(done, 4) == 0) then  ! the list without its second
      one => first%next
      first%next => one%next
      call mainstay_heap_free(c_loc(one))
    end if
    if (.not. associated(field)) call c_f_pointer(mainstay_heap_calloc(50000_c_size_t, 8_c_size_t), field, [50000])
    field = field + [(real(mod(i, 7), 8) * done, i = 1, size(field))]
  end subroutine

  integer(c_size_t) function c_sizeof_body() result(bytes)
    type(body) :: one
    bytes = storage_size(one) / 8
  end function

  real(8) function total()
    type(body), pointer :: one
    total = sum(field)
    one => first
    do while (associated(one))
      total = total + one%x
      one => one%next
    end do
  end function
end module

program heap
  use lists
  implicit none
  type(mainstay_session), save :: session
  integer, save :: steps
  character(1000) :: space
  character(20) :: text

  call get_command_argument(1, space)
  call get_command_argument(2, text)
  read (text, *) steps
  call session%open_solo(space)
  call session%leave_out(steps)
  call session%protect_globals()
  call session%protect_heap()
  call session%restore()
  print "(a, i0)", "from step ", done
  do while (done < steps)
    call advance
    if (mod(done, 5) == 0) call session%checkpoint()
  end do
  print "(a, es25.17)", "sum ", total()
  call session%close()
end program
