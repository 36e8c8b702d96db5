program minimal
  use mpi
  use mainstay                                           ! +
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
  implicit none
  real(real64), allocatable, target :: field(:)
  integer, target :: step = 0
  integer :: i, error, steps = 1000
  character(20) :: word
  type(mainstay_session) :: session                      ! +
  type(mainstay_options) :: options                      ! +
  integer(int64) :: revision                             ! +
  integer :: status                                      ! +

  call MPI_Init(error)
  call get_command_argument(1, word)
  if (word /= '') read (word, *) steps
  allocate (field(1000000))
  field = 0

  options%every_steps = 100                              ! + or every_seconds, mtbf_seconds
  call session%open(MPI_COMM_WORLD, "space", options)    ! +
  call session%protect("step", step)                     ! +
  call session%protect("field", field)                   ! +
  call session%restore(revision)                         ! + 0: nothing there, nothing done
  if (revision > 0) print "(a, i0, a, i0)", "restored revision ", revision, " at step ", step
  flush (output_unit)

  do while (step < steps)
    do i = 1, size(field)
      field(i) = field(i) + 1 / real(i + step, real64)
    end do
    step = step + 1
    if (session%due(step)) then                          ! + the same on all ranks
      call session%checkpoint(stat=status)               ! + returns after a copy; if it fails, the program goes on
      if (status /= MAINSTAY_OK) write (error_unit, "(a)") mainstay_error_message()
    end if
  end do
  print "(a, i0, a, f0.14)", "step ", step, ", field(2) = ", field(2)

  call session%close()                                   ! +
  call MPI_Finalize(error)
end program
