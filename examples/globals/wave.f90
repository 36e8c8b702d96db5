! The state of the program is in variables of its modules, common blocks and main program.
module state
  implicit none
  integer, parameter :: n = 100000
  real(8) :: high(n) = 0, speed(n) = 0
  integer :: step = 0
end module

program wave
  use mpi
  use mainstay
  use state
  use, intrinsic :: iso_fortran_env, only: int64, output_unit
  implicit none
  save
  real(8) :: most
  integer :: at
  common /seen/ most, at
  integer :: rank, error, i
  integer(int64) :: revision
  type(mainstay_session) :: session
  type(mainstay_options) :: options

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  high(1:n / 2) = 1 + rank
  most = 0
  at = 0
  options%every_steps = 100
  ! ANCHOR: globals
  call session%open(MPI_COMM_WORLD, "space", options)
  call session%leave_out(rank)                            ! stays what it is in this run
  call session%protect_globals()                          ! all other variables of the program
  call session%restore(revision)
  ! ANCHOR_END: globals
  if (revision > 0 .and. rank == 0) print "(a, i0, a, i0)", "restored revision ", revision, " at step ", step
  flush (output_unit)

  do while (step < 1000)
    do i = 2, n - 1
      speed(i) = speed(i) + 0.1d0 * (high(i - 1) - 2 * high(i) + high(i + 1))
    end do
    high(2:n - 1) = high(2:n - 1) + speed(2:n - 1)
    step = step + 1
    if (high(n / 4) > most) then
      most = high(n / 4)
      at = step
    end if
    if (session%due(step)) call session%checkpoint()
  end do
  if (rank == 0) print "(a, i0, a, f0.10, a, i0)", "step ", step, ": the most was ", most, ", at step ", at

  call session%close()
  call MPI_Finalize(error)
end program
