! cxx/recovers.cpp in Fortran: rank 1 dies, and the others go on by calls of their own.
!
!     recovers SPACE STEPS
module work
  use mpi
  use mainstay
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
  use, intrinsic :: iso_fortran_env, only: output_unit
  implicit none
  interface
    function c_raise(signal) bind(C, name="raise") result(status)
      import
      integer(c_int), value :: signal
      integer(c_int) :: status
    end function
    function c_usleep(us) bind(C, name="usleep") result(status)
      import
      integer(c_int), value :: us
      integer(c_int) :: status
    end function
  end interface
  integer, parameter :: looks_max = 20000, look_us = 1000
  integer(c_int64_t), target :: field(1000), done
  integer :: steps
  logical :: has_recovered = .false.
  character(1000) :: space

contains

  ! From the newest revision, or the beginning, to the end, or to the first call that fails.
  subroutine go_on(session, status)
    type(mainstay_session), intent(in) :: session
    integer, intent(out) :: status
    integer :: rank, error, i, unit
    integer(c_int64_t) :: revision
    logical :: is_due
    call MPI_Comm_rank(session%comm(), rank, error)
    call session%restore(revision, stat=status)
    if (status /= MAINSTAY_OK) return
    if (revision == 0) then
      done = 0
      field = [(int(i + 1000 * rank, c_int64_t), i = 0, 999)]
    else if (rank == 0) then
      print "(a, i0)", "back at step ", done
    end if
    do while (done < steps)
      if (done == 4 .and. rank == 1) then
        open (newunit=unit, file=trim(space) // ".died", status="new", iostat=error)
        if (error == 0) error = c_raise(9)
      end if
      if (done == 4 .and. rank == 0 .and. .not. has_recovered) then
        do i = 1, looks_max
          call session%check(stat=status)
          if (status /= MAINSTAY_OK) return
          error = c_usleep(look_us)
        end do
        print "(a)", "WRONG: check has not heard of a failure"
      end if
      field = mod(3 * field + done, 1000003_c_int64_t)
      done = done + 1
      is_due = session%due(done, stat=status)
      if (status == MAINSTAY_OK .and. is_due) call session%checkpoint(stat=status)
      if (status /= MAINSTAY_OK) return
    end do
    call session%wait(stat=status)
    if (status == MAINSTAY_OK) print "(a, i0, a, i0)", "rank ", rank, ": ", sum(field)
  end subroutine
end module

program recovers
  use work
  implicit none
  type(mainstay_session) :: session
  type(mainstay_options) :: options
  integer :: error, status
  character(20) :: text

  call MPI_Init(error)
  call get_command_argument(1, space)
  call get_command_argument(2, text)
  read (text, *) steps
  options%every_steps = 2
  call session%open(MPI_COMM_WORLD, space, options, stat=status)
  if (status /= MAINSTAY_NOT_NEEDED) then
    if (status /= MAINSTAY_OK) error stop "WRONG: open"
    call session%protect("done", done)
    call session%protect("field", field)
    do
      call go_on(session, status)
      if (status /= MAINSTAY_GROUP_FAILED) exit
      call session%recover()
      has_recovered = .true.
    end do
    if (status /= MAINSTAY_OK) error stop "WRONG: " // mainstay_error_message()
    call session%close()
  end if
  flush (output_unit)
  call mainstay_finalize(0)
end program
