! Patches of a grid, each as large as it has become: patches STEPS
!
! They are written one after another into a stream, and read back from it.
program patches
  use mpi
  use mainstay
  use, intrinsic :: iso_fortran_env, only: int64, output_unit, real64
  implicit none
  integer, parameter :: cells_max = 10000
  type patch
    real(real64), allocatable :: values(:)
  end type
  type(patch) :: all(4)
  integer, target :: step = 0
  integer :: steps = 100, rank, p, error
  integer(int64) :: revision
  character(20) :: argument
  type(mainstay_session) :: session

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call get_command_argument(1, argument)
  if (argument /= "") read (argument, *) steps
  do p = 1, size(all)
    allocate (all(p)%values(0))
  end do

  call session%open(MPI_COMM_WORLD, "space")
  call session%protect("step", step)
  call session%restore(revision)
  if (revision /= 0) call load()
  if (rank == 0) print "(a, i0)", "from step ", step
  flush (output_unit)

  do while (step < steps)
    call advance()
    step = step + 1
    if (mod(step, 10) == 0) call save_patches()
  end do
  call session%close()
  if (rank == 0) print "(a, i0, a, es24.16)", "step ", step, ", sum ", sum([(sum(all(p)%values), p = 1, size(all))])
  call MPI_Finalize(error)

contains

  ! One step of the simulation, after which one patch is larger.
  subroutine advance()
    integer :: i
    do p = 1, size(all)
      do i = 1, size(all(p)%values)
        all(p)%values(i) = 0.5 * all(p)%values(i) + rank + p + i
      end do
    end do
    p = 1 + mod(step, size(all))
    if (size(all(p)%values) < cells_max) all(p)%values = [all(p)%values, (real(step, real64), i = 1, 10)]
  end subroutine

  ! ANCHOR: save
  subroutine save_patches()
    integer(int64) :: at, cells
    call session%begin(size(all) * (1 + cells_max) * 8)   ! the most that it can become: the first one sizes the space
    at = 0
    do p = 1, size(all)
      cells = size(all(p)%values, kind=int64)
      call session%write("patches", at, cells)
      call session%write("patches", at + 8, all(p)%values)
      at = at + 8 + 8 * cells
    end do
    call session%checkpoint()                             ! adds what is protected
  end subroutine
  ! ANCHOR_END: save

  ! ANCHOR: load
  subroutine load()
    integer(int64) :: at, cells
    at = 0
    do p = 1, size(all)
      call session%read("patches", at, cells)
      deallocate (all(p)%values)
      allocate (all(p)%values(cells))
      call session%read("patches", at + 8, all(p)%values)
      at = at + 8 + 8 * cells
    end do
  end subroutine
  ! ANCHOR_END: load
end program
