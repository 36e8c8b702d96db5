! c/adopt.c in Fortran, but for the way to die.
!
!     adopt SPACE STEPS [STEP]
program adopt
  use mpi
  use mainstay
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: real64, output_unit
  implicit none
  interface
    function c_raise(signal) bind(C, name="raise") result(status)
      import
      integer(c_int), value :: signal
      integer(c_int) :: status
    end function
  end interface
  real(real64), target :: field(50000) = 0
  integer, target :: step = 0
  integer :: rank, ranks, steps, fatal, error, i
  character(1000) :: text
  type(mainstay_session) :: session

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(2, text)
  read (text, *) steps
  fatal = 0
  call get_command_argument(3, text)
  if (text /= "") read (text, *) fatal
  call get_command_argument(1, text)

  call session%open(MPI_COMM_WORLD, text)
  call session%protect("step", step)
  call session%protect("field", field)
  call session%restore()
  if (rank == 0) then
    print "(a, i0)", "from step ", step
    flush (output_unit)
  end if
  do while (step < steps)
    field = 0.5_real64 * field + rank + [(i, i = 1, size(field))]
    step = step + 1
    if (step == fatal .and. rank == ranks - 1) error = c_raise(9)
    if (mod(step, 10) == 0) call session%checkpoint()
  end do
  call session%close()
  if (rank == 0) print "(a, es25.17)", "sum ", sum(field)
  call MPI_Finalize(error)
end program
