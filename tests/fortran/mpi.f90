! Stands in for the module `mpi` of an MPI that was built without Fortran, as the wheels are: the few parts of
! it that the programs here use, on top of mpi.c. Where there is an mpifort, it is not needed.
module mpi
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  private :: c_int

  ! Set by MPI_Init: they differ from one MPI to another.
  integer(c_int), protected, bind(C, name="standin_comm_world") :: MPI_COMM_WORLD
  integer(c_int), protected, bind(C, name="standin_double") :: MPI_DOUBLE_PRECISION
  integer(c_int), protected, bind(C, name="standin_proc_null") :: MPI_PROC_NULL
  integer(c_int), protected, bind(C, name="standin_max") :: MPI_MAX
  integer, parameter :: MPI_STATUS_IGNORE = 0, MPI_STATUSES_IGNORE = 0  ! never looked at
  integer, parameter :: MPI_SUCCESS = 0

  interface
    subroutine MPI_Init(error) bind(C, name="standin_init")
      import
      integer(c_int), intent(out) :: error
    end subroutine
    subroutine MPI_Finalize(error) bind(C, name="standin_finalize")
      import
      integer(c_int), intent(out) :: error
    end subroutine
    subroutine MPI_Comm_rank(comm, rank, error) bind(C, name="standin_comm_rank")
      import
      integer(c_int), intent(in) :: comm
      integer(c_int), intent(out) :: rank, error
    end subroutine
    subroutine MPI_Comm_size(comm, ranks, error) bind(C, name="standin_comm_size")
      import
      integer(c_int), intent(in) :: comm
      integer(c_int), intent(out) :: ranks, error
    end subroutine
    subroutine MPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, &
                            comm, status, error) bind(C, name="standin_sendrecv")
      import
      type(*), dimension(*), intent(in) :: out
      type(*), dimension(*), intent(inout) :: in
      integer(c_int), intent(in) :: out_count, out_type, to, out_tag, in_count, in_type, from, in_tag, comm, status
      integer(c_int), intent(out) :: error
    end subroutine
    subroutine MPI_Irecv(in, count, kind, from, tag, comm, request, error) bind(C, name="standin_irecv")
      import
      type(*), dimension(..), intent(inout) :: in
      integer(c_int), intent(in) :: count, kind, from, tag, comm
      integer(c_int), intent(out) :: request, error
    end subroutine
    subroutine MPI_Send(out, count, kind, to, tag, comm, error) bind(C, name="standin_send")
      import
      type(*), dimension(..), intent(in) :: out
      integer(c_int), intent(in) :: count, kind, to, tag, comm
      integer(c_int), intent(out) :: error
    end subroutine
    subroutine MPI_Waitall(count, requests, statuses, error) bind(C, name="standin_waitall")
      import
      integer(c_int), intent(in) :: count, statuses
      integer(c_int), intent(inout) :: requests(*)
      integer(c_int), intent(out) :: error
    end subroutine
    subroutine MPI_Allreduce(out, in, count, kind, op, comm, error) bind(C, name="standin_allreduce")
      import
      type(*), dimension(..), intent(in) :: out
      type(*), dimension(..), intent(inout) :: in
      integer(c_int), intent(in) :: count, kind, op, comm
      integer(c_int), intent(out) :: error
    end subroutine
  end interface
end module
