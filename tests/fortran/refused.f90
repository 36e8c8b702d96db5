! Ranks that make different calls, and a session without a restore, get an error by `stat`.
!
!     refused SPACE
program refused_test
  use mpi
  use mainstay
  use checks
  use, intrinsic :: iso_c_binding, only: c_int64_t
  implicit none
  integer, target :: step = 1
  integer :: rank, error, stat
  integer(c_int64_t) :: revision
  character(1000) :: space
  type(mainstay_session) :: session

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call get_command_argument(1, space)

  call session%open(MPI_COMM_WORLD, space)
  call session%protect("step", step)
  call session%checkpoint()
  call session%wait()
  if (rank == 0) then
    call session%checkpoint(stat=stat)
  else
    call session%wait(stat)
  end if
  call refused(stat, MAINSTAY_CALL_MISMATCH, "rank 0 called checkpoint, rank 1 wait")
  call must(mainstay_status_name(stat) == "CALL_MISMATCH", "its name")
  step = 2
  call session%checkpoint(revision)
  call must(revision == 2, "the job goes on")
  call session%close()

  call session%open(MPI_COMM_WORLD, space)
  call session%protect("step", step)
  step = 3
  call session%checkpoint(stat=stat)
  call refused(stat, MAINSTAY_NOT_RESTORED, "would push out revision 2")
  call must(mainstay_status_name(stat) == "NOT_RESTORED", "its name")
  call must(step == 3, "the memory is as it was")
  call session%restore(revision)
  call must(revision == 2 .and. step == 2, "what was saved is there")
  call session%checkpoint()
  call session%close()
  if (rank == 0) print "(a)", "done"
  call MPI_Finalize(error)
end program
