! A Fortran program of FTI: each rank counts. Rank 1 stops the job after the step in the third argument. Prints "from
! step N" and "sum X" on rank 0.
program fti_fortran
  use mpi
  use FTI
  implicit none
  double precision :: mine = 0, all
  character(256) :: text, file
  integer, target :: step
  integer :: steps, death, comm, rank, status, code
  double precision, target :: values(10, 20)
  complex(8), target :: root

  call get_command_argument(1, file)
  call get_command_argument(2, text)
  read (text, *) steps
  call get_command_argument(3, text)
  read (text, *) death
  call MPI_Init(code)
  comm = MPI_COMM_WORLD
  call FTI_Init(file, comm, code)
  call check(code == FTI_SCES, "FTI_Init")
  call MPI_Comm_rank(comm, rank, code)
  values = rank
  root = (1, 2)
  step = 0
  call FTI_Protect(0, step, code)
  call check(code == FTI_SCES, "FTI_Protect")
  call FTI_Protect(1, values, code)
  call check(code == FTI_SCES, "FTI_Protect")
  call FTI_Protect(2, root, code)
  call check(code == FTI_SCES, "FTI_Protect")
  call FTI_Status(status)
  if (status /= 0) then
    call FTI_Recover(code)
    call check(code == FTI_SCES, "FTI_Recover")
  end if
  if (rank == 0) print "(a,i0)", "from step ", step
  do while (step < steps)
    step = step + 1
    values = values * 0.5d0 + step
    root = root * (0, 1)
    if (step == death) then
      call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_MAX, comm, code)
      if (rank == 1) error stop 3
    end if
    if (mod(step, 5) == 0) then
      call FTI_Checkpoint(step, 4, code)
      call check(code == FTI_DONE, "FTI_Checkpoint")
    end if
  end do
  if (rank == 0) print "(a,es23.16)", "sum ", sum(values) + real(root) * 3 + aimag(root)
  call FTI_Finalize(code)
  call check(code == FTI_SCES, "FTI_Finalize")
  call MPI_Finalize(code)
contains
  subroutine check(is_good, what)
    logical, intent(in) :: is_good
    character(*), intent(in) :: what
    if (is_good) return
    print "(a,a)", what, " failed"
    error stop 3
  end subroutine
end program
