! MPI through the module mpi. Prints "module: done" on rank 0. Licence: MIT OR Apache-2.0.
module counted
  use mpi
  implicit none
  integer :: copied = 0, deleted = 0, freed = 0, handled = 0

contains

  subroutine copy(comm, keyval, extra_state, in, out, flag, ierror)
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, in, out
    logical :: flag
    copied = copied + 1
    out = in + extra_state
    flag = comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra_state
    if (comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID .and. extra_state == 1000) &
      deleted = deleted + int(value)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine handle(comm, code)
    integer :: comm, code
    if (comm /= MPI_COMM_NULL .and. code /= MPI_SUCCESS) handled = handled + 1
  end subroutine

  subroutine handle_file(file, code)
    integer :: file, code
    if (file == MPI_FILE_NULL .or. code /= MPI_SUCCESS) handled = handled + 100
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: status(MPI_STATUS_SIZE), ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state), ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
    status(MPI_SOURCE) = MPI_UNDEFINED
    status(MPI_TAG) = MPI_UNDEFINED
  end subroutine

  subroutine free_request(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + int(extra_state)
    extra_state = 0
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (.not. complete) freed = freed + 1000*int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine
end module

program module
  use mpi
  use counted
  implicit none
  integer :: ierr, rank, ranks, key, comm, request, status(MPI_STATUS_SIZE), handler, n, i, file, type
  integer(MPI_ADDRESS_KIND) :: value, memory, state, lower, extent
  integer(MPI_OFFSET_KIND) :: bytes
  integer(MPI_COUNT_KIND) :: size
  logical :: flag
  real(8) :: x(4), y(4)
  character(len=20) :: representation

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)

  ! Attributes, with functions of the program and of MPI.
  call MPI_Comm_create_keyval(copy, delete, key, 1000_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, -2_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_dup(MPI_COMM_SELF, comm, ierr)
  call MPI_Comm_get_attr(comm, key, value, flag, ierr)
  call check(flag .and. value == 998 .and. copied == 1, 'a copied attribute')
  call MPI_Comm_free(comm, ierr)
  call check(deleted == 998, 'an attribute of a freed communicator')
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, 7_MPI_ADDRESS_KIND, ierr)
  call check(deleted == 996, 'an attribute in the place of another')
  call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierr)
  call check(deleted == 1003, 'a deleted attribute')
  call MPI_Comm_free_keyval(key, ierr)
  call check(key == MPI_KEYVAL_INVALID, 'free_keyval')
  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND, ierr)
  call MPI_Type_contiguous(3, MPI_INTEGER, type, ierr)
  call MPI_Type_set_attr(type, key, 5000000000_MPI_ADDRESS_KIND, ierr)
  call MPI_Type_get_attr(type, key, value, flag, ierr)
  call check(flag .and. value == 5000000000_MPI_ADDRESS_KIND, 'an attribute of a type')
  call MPI_Type_get_extent(type, lower, extent, ierr)
  call check(lower == 0 .and. extent == 12, 'type_get_extent')
  call MPI_Type_size_x(type, size, ierr)
  call check(size == 12, 'type_size_x')
  call MPI_Type_free(type, ierr)

  ! Error handlers.
  call MPI_Comm_create_errhandler(handle, handler, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler, ierr)
  call MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER, ierr)
  call check(handled == 1, 'a function for errors')
  call MPI_Errhandler_free(handler, ierr)

  ! A request of the program's own.
  state = 3
  call MPI_Grequest_start(query, free_request, cancel, state, request, ierr)
  call MPI_Test(request, flag, status, ierr)
  call check(.not. flag, 'a request under way')
  call MPI_Grequest_complete(request, ierr)
  call MPI_Wait(request, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  call check(n == 3 .and. freed == 3 .and. state == 0, 'a complete request')
  call MPI_Test_cancelled(status, flag, ierr)
  call check(.not. flag, 'test_cancelled')

  ! A file.
  call MPI_File_create_errhandler(handle_file, handler, ierr)
  call MPI_File_set_errhandler(MPI_FILE_NULL, handler, ierr)
  call MPI_File_open(MPI_COMM_SELF, '/no/such/folder/file ', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  call check(handled == 101, 'a function for errors of files')
  x = [(10*rank + i, i=1, 4)]
  call MPI_File_open(MPI_COMM_WORLD, 'module.out', ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file, ierr)
  call check(ierr == MPI_SUCCESS, 'file_open')
  call MPI_File_set_size(file, 0_MPI_OFFSET_KIND, ierr)
  call MPI_File_set_view(file, int(32*rank, MPI_OFFSET_KIND), MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'native', &
      MPI_INFO_NULL, ierr)
  call MPI_File_write_at_all(file, 0_MPI_OFFSET_KIND, x, 4, MPI_DOUBLE_PRECISION, status, ierr)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, ierr)
  call check(n == 4, 'file_write_at_all')
  y = 0
  call MPI_File_read_at(file, 1_MPI_OFFSET_KIND, y, 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
  call check(all(y(:3) == x(2:)), 'file_read_at')
  call MPI_File_get_view(file, bytes, n, i, representation, ierr)
  call check(bytes == 32*rank .and. n == MPI_DOUBLE_PRECISION .and. representation == 'native', 'file_get_view')
  call MPI_File_close(file, ierr)
  call check(file == MPI_FILE_NULL, 'file_close')
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) call MPI_File_delete('module.out', MPI_INFO_NULL, ierr)

  ! Memory, addresses and sizes.
  call MPI_Alloc_mem(100_MPI_ADDRESS_KIND, MPI_INFO_NULL, memory, ierr)
  call check(memory /= 0, 'alloc_mem')
  call freed_memory()
  call MPI_Get_address(x(1), lower, ierr)
  call MPI_Get_address(x(3), extent, ierr)
  call check(MPI_Aint_diff(extent, lower) == 16 .and. MPI_Aint_add(lower, 16_MPI_ADDRESS_KIND) == extent, 'aint_diff')
  call MPI_Sizeof(x, n, ierr)
  call check(n == 8, 'sizeof an array')
  call MPI_Sizeof((1.0, 2.0), n, ierr)
  call check(n == 8, 'sizeof a complex number')

  ! Arrays with gaps are copied by the compiler.
  x = rank
  if (rank == 0) x = [1, 2, 3, 4]
  call MPI_Bcast(x(1:4:2), 2, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  call check(x(3) == 3, 'a section')

  if (rank == 0) print '(a)', 'module: done'
  call MPI_Finalize(ierr)

contains

  subroutine freed_memory()
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr) :: pointer
    real(8), pointer :: array(:)
    call MPI_Alloc_mem(800_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer, ierr)
    call c_f_pointer(pointer, array, [100])
    array = 1
    call check(sum(array) == 100, 'alloc_mem as a pointer')
    call MPI_Free_mem(array, ierr)
  end subroutine

  subroutine check(holds, name)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: name
    if (holds) return
    write (0, '(2a)') 'module: failed: ', name
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program
