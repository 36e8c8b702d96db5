! MPI through mpif.h in free form. Prints "free: done" on rank 0. Licence: MIT OR Apache-2.0.
program free
  implicit none
  include 'mpif.h'
  integer :: ierr, rank, ranks, i, comm, line, left, right, dims(2), coords(1), n, graph, row
  integer, allocatable :: sources(:), destinations(:), received(:)
  logical :: periods(1), flag, weighted
  integer :: indegree, outdegree, status(MPI_STATUS_SIZE), value, buffer(100), place, requests(2), indices(2)

  call MPI_Init_thread(MPI_THREAD_FUNNELED, n, ierr)
  call check(n >= MPI_THREAD_FUNNELED, 'init_thread')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)

  ! Topologies: their logical arguments are arrays, too.
  dims = 0
  call MPI_Dims_create(ranks, 1, dims, ierr)
  call check(dims(1) == ranks, 'dims_create')
  call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, [.true.], .false., line, ierr)
  call MPI_Cart_get(line, 1, dims, periods, coords, ierr)
  call check(periods(1) .and. (periods(1) .eqv. .true.) .and. coords(1) == rank, 'cart_get')
  call MPI_Cart_shift(line, 0, 1, left, right, ierr)
  call check(right == mod(rank + 1, ranks), 'cart_shift')
  call MPI_Cart_sub(line, [.false.], row, ierr)
  call MPI_Comm_size(row, n, ierr)
  call check(n == 1, 'cart_sub')
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], MPI_UNWEIGHTED, &
      MPI_INFO_NULL, .false., graph, ierr)
  call MPI_Dist_graph_neighbors_count(graph, indegree, outdegree, weighted, ierr)
  call check(indegree == 1 .and. outdegree == 1 .and. .not. weighted, 'unweighted')
  allocate (sources(1), destinations(1))
  call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, ierr)
  call check(sources(1) == left .and. destinations(1) == right, 'dist_graph_neighbors')

  ! Texts with a length of their own.
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call names(comm)
  call info_objects()
  call MPI_Comm_free(comm, ierr)
  call check(comm == MPI_COMM_NULL, 'comm_free')

  ! Packing, gathering, requests that are done.
  place = 0
  call MPI_Pack(rank, 1, MPI_INTEGER, buffer, 400, place, MPI_COMM_WORLD, ierr)
  call MPI_Pack([1d0, 2d0], 2, MPI_DOUBLE_PRECISION, buffer, 400, place, MPI_COMM_WORLD, ierr)
  call check(place == 20, 'pack')
  place = 0
  call MPI_Unpack(buffer, 20, place, value, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call check(value == rank .and. place == 4, 'unpack')
  allocate (received(ranks))
  call MPI_Allgather(rank, 1, MPI_INTEGER, received, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call check(all(received == [(i, i=0, ranks - 1)]), 'allgather')
  requests(1) = MPI_REQUEST_NULL
  call MPI_Irecv(value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitsome(2, requests, n, indices, MPI_STATUSES_IGNORE, ierr)
  call check(n == 1 .and. indices(1) == 2, 'waitsome')
  call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, flag, status, ierr)
  call check(.not. flag, 'iprobe')
  call MPI_Buffer_attach(buffer, 400, ierr)
  call MPI_Buffer_detach(buffer, n, ierr)
  call check(n == 400, 'buffer_detach')

  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a)', 'free: done'
  call MPI_Finalize(ierr)

contains

  subroutine names(comm)
    integer, intent(in) :: comm
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=3) :: short
    integer :: length
    call MPI_Comm_set_name(comm, 'a name  ', ierr)
    name = repeat('x', MPI_MAX_OBJECT_NAME)
    call MPI_Comm_get_name(comm, name, length, ierr)
    call check(name == 'a name' .and. length == 6, 'comm_get_name')
    call MPI_Comm_get_name(comm, short, length, ierr)
    call check(short == 'a n', 'a short name')
    call MPI_Get_version(length, i, ierr)
    call check(length >= 3, 'get_version')
  end subroutine

  subroutine info_objects()
    character(len=20) :: value, key
    integer :: info, length, again
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, ' key ', ' a value ', ierr)
    value = 'before'
    call MPI_Info_get(info, 'none', 20, value, flag, ierr)
    call check(.not. flag .and. value == 'before', 'info_get of none')
    call MPI_Info_get(info, 'key', 20, value, flag, ierr)
    call check(flag .and. value == 'a value', 'info_get')
    call MPI_Info_get_valuelen(info, 'key', length, flag, ierr)
    call check(flag .and. length == 7, 'info_get_valuelen')
    call MPI_Info_get_nthkey(info, 0, key, ierr)
    call check(key == 'key', 'info_get_nthkey')
    again = 20
    value = ''
    call MPI_Info_get_string(info, 'key', again, value, flag, ierr)
    call check(flag .and. value == 'a value' .and. again == 7, 'info_get_string')
    call MPI_Info_free(info, ierr)
    call check(info == MPI_INFO_NULL, 'info_free')
  end subroutine

  subroutine check(holds, name)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: name
    if (holds) return
    write (0, '(2a)') 'free: failed: ', name
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program
