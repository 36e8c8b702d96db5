! A nonblocking call refuses an array with gaps by name: its elements have no other place to stay.
! Licence: MIT OR Apache-2.0.
program gaps_f08
  use mpi_f08
  implicit none
  type(MPI_Request) :: request
  real(8) :: a(6, 6)
  call MPI_Init()
  call MPI_Irecv(a(2, :), 6, MPI_DOUBLE_PRECISION, 0, 0, MPI_COMM_WORLD, request)
  print '(a)', 'gaps_f08: not refused'
  call MPI_Finalize()
end program
