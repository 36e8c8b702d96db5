! relax.c in Fortran, which has no exceptions: a failed message ends the solver's loop, and the step reports it by
! `fail`.
module relaxing
  use mpi
  use mainstay
  use, intrinsic :: iso_c_binding, only: c_int64_t
  implicit none
  integer, parameter :: cells_of_all = 3000, steps = 20
  integer :: ring, rank, ranks, start, length
  real(8), allocatable, target :: cells(:), old(:), next(:)  ! with a ghost at both ends

contains

  ! Makes the part of this rank ready: at the beginning, and after each failure.
  subroutine layout(session)
    type(mainstay_session), intent(in) :: session
    integer :: error, status, i
    ring = session%comm()  ! a new one after each failure; its errors are returned
    call MPI_Comm_size(ring, ranks, error)
    call MPI_Comm_rank(ring, rank, error)
    start = cells_of_all * rank / ranks
    length = cells_of_all * (rank + 1) / ranks - start
    if (allocated(cells)) deallocate (cells, old, next)
    allocate (cells(0:length + 1), old(0:length + 1), next(0:length + 1))
    cells = 0
    cells(1:length) = [(real(mod(start + i, 1000), 8), i = 0, length - 1)]
    call session%protect_box("cells", cells(1:length), [cells_of_all], [start], stat=status)
    if (status /= MAINSTAY_OK) call session%fail(status)
  end subroutine

  ! Fills the ghosts at both ends. `error` is the first that a message had.
  subroutine exchange(error)
    integer, intent(out) :: error
    integer :: coming(2), low, high
    low = mod(rank + ranks - 1, ranks)
    high = mod(rank + 1, ranks)
    call MPI_Irecv(cells(length + 1), 1, MPI_DOUBLE_PRECISION, high, 0, ring, coming(1), error)
    if (error == MPI_SUCCESS) call MPI_Irecv(cells(0), 1, MPI_DOUBLE_PRECISION, low, 1, ring, coming(2), error)
    if (error == MPI_SUCCESS) call MPI_Send(cells(1), 1, MPI_DOUBLE_PRECISION, low, 0, ring, error)
    if (error == MPI_SUCCESS) call MPI_Send(cells(length), 1, MPI_DOUBLE_PRECISION, high, 1, ring, error)
    if (error == MPI_SUCCESS) call MPI_Waitall(2, coming, MPI_STATUSES_IGNORE, error)
  end subroutine

  ! Until the solution changes no more, or a message fails.
  subroutine solve(error)
    integer, intent(out) :: error
    real(8) :: most, change
    integer :: i
    old = cells
    most = 1
    do while (most > 1d-6)
      call exchange(error)
      if (error /= MPI_SUCCESS) return
      do i = 1, length
        next(i) = (old(i) + cells(i - 1) + cells(i + 1)) / 3
      end do
      change = maxval(abs(next(1:length) - cells(1:length)))
      cells(1:length) = next(1:length)
      call MPI_Allreduce(change, most, 1, MPI_DOUBLE_PRECISION, MPI_MAX, ring, error)
      if (error /= MPI_SUCCESS) return
    end do
  end subroutine

  subroutine step(session, number, over)
    type(mainstay_session), intent(in) :: session
    integer(c_int64_t), intent(in) :: number
    logical, intent(inout) :: over
    integer :: error
    over = number == steps
    if (over) return
    call solve(error)
    if (error /= MPI_SUCCESS) call session%fail(MAINSTAY_GROUP_FAILED)  ! all ranks that are left go back
  end subroutine
end module

program relax
  use relaxing
  use, intrinsic :: iso_fortran_env, only: output_unit, error_unit
  implicit none
  type(mainstay_session) :: session
  type(mainstay_options) :: options
  integer :: status, error

  call MPI_Init(error)
  options%every_steps = 5
  call session%open(MPI_COMM_WORLD, "space", options, stat=status)
  if (status /= MAINSTAY_NOT_NEEDED) then  ! a spare, and the job has ended
    if (status == MAINSTAY_OK) call session%run(layout, step, stat=status)
    if (status /= MAINSTAY_OK) then
      write (error_unit, "(3a)") mainstay_status_name(status), ": ", mainstay_error_message()
      error stop
    end if
    if (rank == 0) print "(a, f0.12)", "the first cell is ", cells(1)
    flush (output_unit)
    call session%close()
  end if
  call mainstay_finalize(0)
end program
