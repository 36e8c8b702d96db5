! c/waits.c in Fortran. The ranks meet in a wait, and the job ends by a stop.
program waits
  use mpi
  use mainstay
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), target :: state(30000) = 0
  character(1000) :: space, held
  integer :: rank, error, unit, stat
  logical :: is_held
  type(mainstay_session) :: session
  type(mainstay_speculation) :: early

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call get_command_argument(1, space)
  call get_command_argument(2, held)
  call session%open(MPI_COMM_WORLD, space)
  call session%protect("state", state)
  call session%checkpoint()
  call session%wait()
  if (rank == 0) then
    open (newunit=unit, file=held, status="replace")
    close (unit)
  end if
  call session%wait()
  state(7) = 1
  call session%checkpoint()
  call session%progress()
  call session%tick()
  call session%settled("state", 0, 8)
  call session%speculation(early)
  if (early%early /= 0) stop 7
  call session%wait_for("memory")
  inquire (file=held, exist=is_held)
  call session%wait_for("memory")
  if (.not. is_held) stop 4
  if (rank == 0) then
    open (newunit=unit, file=held)
    close (unit, status="delete")
  end if
  call session%wait_for("space")
  call session%wait_for("disk", stat)
  if (stat /= MAINSTAY_INVALID_ARGUMENT) stop 6
  stop 5
end program
