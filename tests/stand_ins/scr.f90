! A Fortran program of SCR: each rank counts, and saves a file. Rank 1 stops the job after the step in the second
! argument. Prints "from step N" and "sum X" on rank 0.
program scr_fortran
  use mpi
  implicit none
  double precision :: mine = 0, all
  include "scrf.h"
  integer, parameter :: cells = 1000, every = 5
  double precision :: values(cells)
  character(SCR_MAX_FILENAME) :: dataset, path, text
  integer :: step, steps, death, flag, rank, code

  call get_command_argument(1, text)
  read (text, *) steps
  call get_command_argument(2, text)
  read (text, *) death
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call scr_init(code)
  call check("scr_init")
  values = rank
  step = 0
  call scr_have_restart(flag, dataset, code)
  call check("scr_have_restart")
  if (flag == 1) then
    call scr_start_restart(dataset, code)
    call check("scr_start_restart")
    call scr_route_file(file_of(dataset), path, code)
    call check("scr_route_file")
    open (10, file=path, form="unformatted", action="read", status="old")
    read (10) step, values
    close (10)
    call scr_complete_restart(1, code)
    call check("scr_complete_restart")
  end if
  if (rank == 0) print "(a,i0)", "from step ", step
  do while (step < steps)
    step = step + 1
    values = values * 0.5d0 + step
    if (step == death) then
      call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
      if (rank == 1) error stop 3
    end if
    call scr_need_checkpoint(flag, code)
    call check("scr_need_checkpoint")
    if (flag == 1) then
      write (dataset, "(a,i0)") "step.", step
      call scr_start_output(dataset, SCR_FLAG_CHECKPOINT, code)
      call check("scr_start_output")
      call scr_route_file(file_of(dataset), path, code)
      call check("scr_route_file")
      open (10, file=path, form="unformatted", action="write")
      write (10) step, values
      close (10)
      call scr_complete_output(1, code)
      call check("scr_complete_output")
    end if
  end do
  if (rank == 0) print "(a,es23.16)", "sum ", sum(values)
  call scr_finalize(code)
  call check("scr_finalize")
  call MPI_Finalize(code)
contains
  function file_of(dataset) result(name)
    character(*), intent(in) :: dataset
    character(SCR_MAX_FILENAME) :: name
    write (name, "(a,a,i0)") trim(dataset), "/values.", rank
  end function

  subroutine check(what)
    character(*), intent(in) :: what
    if (code == SCR_SUCCESS) return
    print "(a,a)", what, " failed"
    error stop 3
  end subroutine
end program
