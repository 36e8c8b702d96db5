! A program with its state in its own variables: of a module, in a common block, of the main program, saved in a
! procedure.
!
!     globals SPACE STEPS [DEATH]
!
! Prints the step that it began at, and the sum of each rank. Rank 1 ends the job after the step DEATH.
module fields
  implicit none
  integer, parameter :: cells = 5001
  real(8) :: u(cells, 2) = 0
  real(8), allocatable, target :: work(:)
  integer(8) :: steps_done = 0
  integer :: world
end module

subroutine count_calls(calls)
  implicit none
  integer, intent(out) :: calls
  integer, save :: count = 0
  count = count + 1
  calls = count
end subroutine

program globals_test
  use mpi
  use mainstay
  use checks
  use fields
  use, intrinsic :: iso_c_binding, only: c_int64_t
  implicit none
  real(8) :: shared(300), factor, from_left(1)
  common /block/ shared, factor
  integer :: rank, ranks, error, steps, death, calls, stat, i
  integer(c_int64_t) :: revision
  character(1000) :: space, text
  type(mainstay_session) :: session

  call MPI_Init(error)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, error)
  call MPI_Comm_size(world, ranks, error)
  call get_command_argument(1, space)
  call get_command_argument(2, text)
  read (text, *) steps
  death = -1
  if (command_argument_count() > 2) then
    call get_command_argument(3, text)
    read (text, *) death
  end if

  allocate (work(100))
  work = 0
  shared = 1
  factor = 0.25d0
  u(1, 1) = 1
  call session%open(MPI_COMM_WORLD, space)
  ! A message is kept, of a call that failed.
  call session%unprotect("nothing", stat)
  call refused(stat, MAINSTAY_REGION_MISSING, "nothing")
  call session%protect("work", work)
  call session%leave_out(world)
  call session%leave_out(steps)
  call session%leave_out(death)
  call session%protect_globals()
  call session%leave_out(world, stat)
  call refused(stat, MAINSTAY_INVALID_ARGUMENT, "protected already")
  call session%restore(revision)
  if (rank == 0) print "(a, i0)", "from step ", steps_done
  call session%unprotect("nothing again", stat)
  call refused(stat, MAINSTAY_REGION_MISSING, "nothing again")

  do while (steps_done < steps)
    call MPI_Sendrecv(u(cells, 1), 1, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 1, from_left, 1, MPI_DOUBLE_PRECISION, &
                      mod(rank + ranks - 1, ranks), 1, world, MPI_STATUS_IGNORE, error)
    u(1, 2) = u(1, 1) / 2 + from_left(1)
    do i = 2, cells
      u(i, 2) = u(i, 1) / 2 + factor * u(i - 1, 1) + mod(i, 7)
    end do
    u(:, 1) = u(:, 2)
    steps_done = steps_done + 1
    call count_calls(calls)
    call must(calls == steps_done, "a variable with the save attribute")
    work(1 + mod(calls, 100)) = work(1 + mod(calls, 100)) + u(3, 1)
    shared(1 + mod(calls, 300)) = shared(1 + mod(calls, 300)) + u(4, 1)
    if (steps_done == death .and. rank == 1) error stop 7
    if (mod(steps_done, 5_8) == 0) call session%checkpoint()
  end do
  call session%close()
  print "(a, i0, es25.17)", "sum ", rank, sum(u) + sum(work) + sum(shared)
  call MPI_Finalize(error)
end program
