! Steps that go on when a rank fails, with another in its place.
!
!     recovery SPACE STEPS [FAILS]
!
! Step number FAILS fails on all ranks, with a region that does not exist. The first to do step 4 as rank 1 leaves the file "died" beside the space and dies.
module work
  use mpi
  use mainstay
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
  implicit none
  interface
    function c_raise(signal) bind(C, name="raise") result(status)
      import
      integer(c_int), value :: signal
      integer(c_int) :: status
    end function
  end interface
  integer(c_int64_t), allocatable, target :: field(:)
  integer :: rank, steps, fails = -1
  character(1000) :: space

contains

  subroutine layout(session)
    type(mainstay_session), intent(in) :: session
    integer :: error, i
    call MPI_Comm_rank(session%comm(), rank, error)
    if (allocated(field)) deallocate (field)
    allocate (field(1000))
    field = [(int(i + 1000 * rank, c_int64_t), i = 1, 1000)]
    call session%protect("field", field)
  end subroutine

  subroutine step(session, number, over)
    type(mainstay_session), intent(in) :: session
    integer(c_int64_t), intent(in) :: number
    logical, intent(inout) :: over
    integer :: unit, error, status
    if (.not. session%is_open()) error stop "WRONG: the session is not open"
    if (number == steps) then
      over = .true.
      return
    end if
    if (number == fails) then
      call session%unprotect("nothing", stat=status)
      call session%fail(status)
      return
    end if
    if (number == 4 .and. rank == 1) then
      open (newunit=unit, file=trim(space) // ".died", status="new", iostat=error)
      if (error == 0) error = c_raise(9)
    end if
    field = mod(3 * field + number, 1000003_c_int64_t)
  end subroutine
end module

program recovery
  use work
  use, intrinsic :: iso_fortran_env, only: output_unit
  implicit none
  type(mainstay_session) :: session
  type(mainstay_options) :: options
  integer :: error, status
  character(20) :: text

  call MPI_Init(error)
  call get_command_argument(1, space)
  call get_command_argument(2, text)
  read (text, *) steps
  call get_command_argument(3, text)
  if (text /= "") read (text, *) fails
  options%every_steps = 2
  call session%open(MPI_COMM_WORLD, space, options, stat=status)
  if (status /= MAINSTAY_NOT_NEEDED) then
    if (status /= MAINSTAY_OK) error stop "WRONG: open"
    call session%run(layout, step, stat=status)
    if (status /= MAINSTAY_OK) then
      if (rank == 1) print "(4a)", "run: ", mainstay_status_name(status), ": ", mainstay_error_message()
      flush (output_unit)
      call session%close()
      call mainstay_finalize(0)
      stop
    end if
    call session%check()
    if (rank == 1) print "(a, i0)", "sum ", sum(field)
    flush (output_unit)
    call session%close()
  end if
  call mainstay_finalize(0)
end program
