! A nonblocking collective refuses an array with gaps by name: its elements have no other place to stay.
! Licence: MIT OR Apache-2.0.
program gaps_f08
  use mpi_f08
  implicit none
  type(MPI_Request) :: request
  real(8) :: a(6, 6), b(6)
  call MPI_Init()
  a = 1
  call MPI_Ireduce(a(2, :), b, 6, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, request)
  print '(a)', 'gaps_f08: not refused'
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_Finalize()
end program
