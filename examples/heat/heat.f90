! Heat in a square plate, warm at one edge: 2-D, explicit, rows cut among the ranks. The program saves itself and goes
! on after a failure.
!
!     heat SPACE OUT STEPS EVERY [N]
!
! Saves a revision to SPACE every EVERY steps. At the end each rank writes its part of the N x N plate, as it is in
! memory, to OUT.0, OUT.1, and so on. Any number of ranks can continue from the revisions of any other number. All lines
! that save are marked.
module plates
  use, intrinsic :: iso_c_binding, only: c_loc, c_ptr                            ! saving
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), allocatable, target :: plate(:, :)  ! x, y: with a row of each neighbour, or the edge
contains
  ! ANCHOR: where
  ! The address of the protected array.                                          ! saving
  type(c_ptr) function where_plate() bind(C)                                     ! saving
    where_plate = c_loc(plate(0, 1))                                             ! saving
  end function                                                                   ! saving
  ! ANCHOR_END: where
end module

program heat
  use plates
  use mpi
  use mainstay                                                                   ! saving
  use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit
  implicit none

  real(real64), parameter :: diffusion = 0.2_real64
  real(real64), allocatable, target :: next(:, :)
  real(real64), allocatable :: spare(:, :)
  integer, target :: step = 0
  integer :: n, first, rows, steps, rank, ranks, above, below, unit, error
  integer(int64) :: revision
  character(1000) :: text
  type(mainstay_session) :: session                                              ! saving
  type(mainstay_options) :: options                                              ! saving

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  n = 400
  if (command_argument_count() > 4) n = number(5)
  steps = number(3)
  first = (n * rank) / ranks
  rows = (n * (rank + 1)) / ranks - first
  above = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  below = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  allocate (plate(0:n + 1, 0:rows + 1), next(0:n + 1, 0:rows + 1))
  plate = 0
  plate(0, :) = 100

  options%every_steps = number(4)                                                ! saving
  call get_command_argument(1, text)
  call session%open(MPI_COMM_WORLD, text, options)                               ! saving
  ! ANCHOR: box
  call session%protect("step", step)                                             ! saving
  call session%protect_box("plate", plate(:, 1:rows), [n + 2, n], [0, first])    ! saving
  ! ANCHOR_END: box
  ! ANCHOR: follow
  call session%follow("plate", where_plate)                                      ! saving: move_alloc swaps it
  ! ANCHOR_END: follow
  call session%restore(revision)                                                 ! saving
  if (revision > 0 .and. rank == 0) print "(a, i0, a, i0)", "restored revision ", revision, ", step ", step

  do while (step < steps)
    call exchange()
    next = plate
    next(1:n, 1:rows) = plate(1:n, 1:rows) + diffusion * (plate(:n - 1, 1:rows) + plate(2:, 1:rows) &
                        + plate(1:n, :rows - 1) + plate(1:n, 2:) - 4 * plate(1:n, 1:rows))
    call move_alloc(plate, spare)
    call move_alloc(next, plate)
    call move_alloc(spare, next)
    step = step + 1
    if (session%due(step)) call session%checkpoint()                             ! saving
    if (rank == 0 .and. mod(step, 10) == 0) then
      print "(a, i0)", "step ", step
      flush (output_unit)
    end if
  end do
  call session%close()                                                           ! saving

  call get_command_argument(2, text)
  write (text, "(a, '.', i0)") trim(text), rank
  open (newunit=unit, file=text, access="stream", form="unformatted", status="replace")
  write (unit) plate(1:n, 1:rows)
  close (unit)
  call MPI_Finalize(error)

contains

  integer function number(argument)
    integer, intent(in) :: argument
    character(20) :: word
    call get_command_argument(argument, word)
    read (word, *) number
  end function

  ! Exchanges the rows at both sides with the neighbours.
  subroutine exchange()
    integer, parameter :: up = 1, down = 2
    call MPI_Sendrecv(plate(0, 1), n + 2, MPI_DOUBLE_PRECISION, above, up, &
                      plate(0, rows + 1), n + 2, MPI_DOUBLE_PRECISION, below, up, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_Sendrecv(plate(0, rows), n + 2, MPI_DOUBLE_PRECISION, below, down, &
                      plate(0, 0), n + 2, MPI_DOUBLE_PRECISION, above, down, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  end subroutine
end program
