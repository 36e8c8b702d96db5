! Reads the revisions of heat from outside, without MPI: the temperatures along the middle row of the plate.
!
!     look SPACE [REVISION]
program look
  use mainstay_reading
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  type(mainstay_reader) :: reader
  real(real64), allocatable :: row(:, :)
  integer(int64) :: revision = MAINSTAY_NEWEST, middle
  integer :: step, i
  character(1000) :: space, text

  call get_command_argument(1, space)
  if (command_argument_count() > 1) then
    call get_command_argument(2, text)
    read (text, *) revision
  end if
  ! ANCHOR: read
  call reader%open(space, revision)  ! MAINSTAY_NEWEST: the newest
  call reader%read(0, "step", 0, step)
  associate (items => reader%items(0))
    do i = 1, size(items)
      if (items(i)%name /= "plate") cycle
      middle = items(i)%global_shape(2) / 2
      allocate (row(items(i)%global_shape(1), 1))
      call reader%read_box("plate", [0_int64, middle], row)
    end do
  end associate
  ! ANCHOR_END: read
  print "(a, i0, a, i0, a, i0, a)", "revision ", reader%revision(), ", step ", step, ", ", reader%shards(), " shards"
  print "(a, 4f8.2)", "from the warm edge on:", row(:4, 1)
  call reader%close()
end program
