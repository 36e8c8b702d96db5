! MPI through the module mpi_f08. Prints "module_f08: done" on rank 0. Licence: MIT OR Apache-2.0.
module functions_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none

contains

  subroutine largest(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    real(8), pointer :: left(:), right(:)
    call c_f_pointer(invec, left, [len])
    call c_f_pointer(inoutvec, right, [len])
    if (datatype == MPI_DOUBLE_PRECISION) right = max(left, right)
  end subroutine

  subroutine copy(comm, keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    attribute_val_out = 2*attribute_val_in + extra_state
    flag = comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID
    ierror = MPI_SUCCESS
  end subroutine

  subroutine handle(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    if (comm == MPI_COMM_SELF) error_code = MPI_SUCCESS
  end subroutine
end module

program module_f08
  use mpi_f08
  use functions_f08, only: largest, copy, handle
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: rank, ranks, i, n, key, ierr, next, before, integers(1), as_integers(MPI_STATUS_SIZE)
  type(MPI_Comm) :: comm
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Op) :: op
  type(MPI_Datatype) :: type, pair
  type(MPI_Errhandler) :: handler
  type(MPI_File) :: file
  type(MPI_Message) :: message
  type(c_ptr) :: pointer
  integer(MPI_ADDRESS_KIND) :: value
  integer(MPI_COUNT_KIND) :: large
  real(8) :: a(6, 6), b(6, 6), c(3), whole(9)
  character(len=30) :: text
  character(len=MPI_MAX_OBJECT_NAME) :: name
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call check(ierr == MPI_SUCCESS, 'comm_size')
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)

  ! Arrays, scalars, texts, and sections with gaps.
  a = reshape([(100*rank + i, i=1, 36)], [6, 6])
  b = -1
  call MPI_Sendrecv(a, 36, MPI_DOUBLE_PRECISION, next, 5, b, 36, MPI_DOUBLE_PRECISION, before, 5, MPI_COMM_WORLD, status)
  call check(status%MPI_SOURCE == before .and. status%MPI_TAG == 5, 'a status')
  call check(b(6, 6) == 100*before + 36, 'an array')
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n)
  call check(n == 36, 'get_count')
  b = -1
  call MPI_Sendrecv(a(2, :), 6, MPI_DOUBLE_PRECISION, next, 6, b(1:6:2, 2:5:3), 6, MPI_DOUBLE_PRECISION, before, 6, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(b(1, 2) == 100*before + 2 .and. b(5, 5) == 100*before + 32 .and. count(b >= 0) == 6, 'a section')
  c = rank
  call MPI_Allreduce(MPI_IN_PLACE, c, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call check(c(2) == ranks*(ranks - 1)/2, 'in place')
  b = rank
  call MPI_Allreduce(MPI_IN_PLACE, b(3, :), 6, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call check(b(3, 6) == ranks*(ranks - 1)/2 .and. b(2, 6) == rank, 'a section in place')
  text = ''
  if (rank == 0) text = 'a text'
  call MPI_Bcast(text, len(text), MPI_CHARACTER, 0, MPI_COMM_WORLD)
  call check(text == 'a text', 'a text')
  call assumed_size(a, 36)

  ! Requests and their comparison.
  call MPI_Irecv(b, 36_MPI_COUNT_KIND, MPI_DOUBLE_PRECISION, before, 9, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(:, 1:6), 36, MPI_DOUBLE_PRECISION, next, 9, MPI_COMM_WORLD, requests(2))
  call check(all(requests /= MPI_REQUEST_NULL), 'requests')
  call MPI_Waitall(2, requests, statuses)
  call check(all(requests == MPI_REQUEST_NULL) .and. statuses(1)%MPI_TAG == 9, 'waitall')
  call MPI_Get_count(statuses(1), MPI_DOUBLE_PRECISION, large)
  call check(large == 36, 'get_count of a large count')
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  b = -1
  call MPI_Irecv(b(2:6:2, 1:6:4), 5, MPI_DOUBLE_PRECISION, before, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Issend(a(5, :), 5, MPI_DOUBLE_PRECISION, next, 2, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, statuses)
  call check(b(6, 1) == 100*before + 17 .and. b(4, 5) == 100*before + 29 .and. count(b >= 0) == 5, 'sections')
  call MPI_Get_count(statuses(1), MPI_DOUBLE_PRECISION, n)
  call check(n == 5, 'get_count of a section')
  call MPI_Isend(rank, 1, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Mprobe(before, 1, MPI_COMM_WORLD, message, status)
  call MPI_Mrecv(n, 1, MPI_INTEGER, message, status)
  call check(n == before .and. message == MPI_MESSAGE_NULL, 'mrecv')
  call MPI_Waitany(2, requests, n, status)
  call check(n == 1, 'waitany')

  ! Functions of the program.
  call MPI_Op_create(largest, .true., op)
  c = rank
  call MPI_Allreduce(MPI_IN_PLACE, c, 3, MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD)
  call check(c(1) == ranks - 1, 'op_create')
  call MPI_Op_free(op)
  call MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, key, 1_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, 20_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(MPI_COMM_SELF, comm)
  call MPI_Comm_get_attr(comm, key, value, flag)
  call check(flag .and. value == 41, 'a copied attribute')
  call MPI_Comm_free(comm)
  call check(comm == MPI_COMM_NULL, 'comm_free')
  call MPI_Comm_delete_attr(MPI_COMM_SELF, key)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  call check(flag .and. value >= 32767, 'tag_ub')
  call MPI_Comm_create_errhandler(handle, handler)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
  call MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)

  ! Datatypes, packing, memory.
  call MPI_Type_vector(3, 1, 6, MPI_DOUBLE_PRECISION, type)
  call MPI_Type_commit(type)
  call MPI_Type_set_name(type, 'a row')
  call MPI_Type_get_name(type, name, n)
  call check(name == 'a row' .and. n == 5, 'type_get_name')
  a = reshape([(i, i=1, 36)], [6, 6])
  i = 0
  call MPI_Pack(a, 1, type, whole, 72, i, MPI_COMM_SELF)
  call check(i == 24 .and. all(whole(:3) == [1, 7, 13]), 'pack')
  call MPI_Type_free(type)
  value = 0
  call MPI_Pack_external('external32', a(2, :), 2, MPI_DOUBLE_PRECISION, whole, 72_MPI_ADDRESS_KIND, value)
  call check(value == 16, 'pack_external')
  call MPI_Type_create_f90_real(15, MPI_UNDEFINED, pair)
  call MPI_Type_size(pair, n)
  call check(n == 8, 'type_create_f90_real')
  call MPI_Alloc_mem(800_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer)
  call use_memory()
  call MPI_Sizeof(a, n)
  call check(n == 8, 'sizeof')
  call MPI_Status_f082f(statuses(1), as_integers)
  call check(as_integers(MPI_TAG) == 2, 'status_f082f')

  ! A file.
  call MPI_File_open(MPI_COMM_WORLD, 'module_f08.out', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
  integers = rank
  call MPI_File_write_at(file, int(4*rank, MPI_OFFSET_KIND), integers, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
  call MPI_File_sync(file)
  integers = -1
  call MPI_File_read_at_all(file, int(4*rank, MPI_OFFSET_KIND), integers, 1, MPI_INTEGER, status)
  call check(integers(1) == rank, 'file_read_at_all')
  call MPI_File_close(file)
  call check(file == MPI_FILE_NULL, 'file_close')
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) call MPI_File_delete('module_f08.out', MPI_INFO_NULL)
  call check(MPI_Wtime() > 0, 'wtime')

  if (rank == 0) print '(a)', 'module_f08: done'
  call MPI_Finalize()

contains

  subroutine assumed_size(array, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: array(*)
    call MPI_Bcast(array, n, MPI_DOUBLE_PRECISION, 0, MPI_COMM_SELF)
  end subroutine

  subroutine use_memory()
    real(8), pointer :: array(:)
    call c_f_pointer(pointer, array, [100])
    array = 1
    call check(sum(array) == 100, 'alloc_mem')
    call MPI_Free_mem(array)
  end subroutine

  subroutine check(holds, step)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: step
    if (holds) return
    write (0, '(2a)') 'module_f08: failed: ', step
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program
