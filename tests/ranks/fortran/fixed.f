! MPI through mpif.h in fixed form. Prints "fixed: done" on rank 0. Licence: MIT OR Apache-2.0.
      program fixed
      implicit none
      include 'mpif.h'
      integer ierr, rank, ranks, next, before, i, n
      integer status(MPI_STATUS_SIZE)
      integer statuses(MPI_STATUS_SIZE, 2), requests(2)
      integer mine, theirs, total, index, length, key, code
      integer pair, types(2), lengths(2), places(2), old_value
      double precision a(10), b(10), started
      character*(MPI_MAX_PROCESSOR_NAME) name
      character*(MPI_MAX_ERROR_STRING) text
      logical flag
      integer(kind=MPI_ADDRESS_KIND) where(2), value
      external count_up
      integer added

      call MPI_INIT(ierr)
      call check(ierr .eq. MPI_SUCCESS, 'init')
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
      call MPI_INITIALIZED(flag, ierr)
      call check(flag, 'initialized')
      started = MPI_WTIME()
      call check(MPI_WTICK() .gt. 0d0, 'wtick')
      next = mod(rank + 1, ranks)
      before = mod(rank + ranks - 1, ranks)

! Messages, of which one has a status that nobody reads.
      mine = rank
      call MPI_SENDRECV(mine, 1, MPI_INTEGER, next, 7, theirs, 1,
     &  MPI_INTEGER, before, 7, MPI_COMM_WORLD, status, ierr)
      call check(theirs .eq. before, 'sendrecv')
      call check(status(MPI_SOURCE) .eq. before, 'source')
      call check(status(MPI_TAG) .eq. 7, 'tag')
      call MPI_GET_COUNT(status, MPI_INTEGER, n, ierr)
      call check(n .eq. 1, 'get_count')
      do i = 1, 10
        a(i) = 100*rank + i
      end do
      call MPI_IRECV(b, 10, MPI_DOUBLE_PRECISION, before,
     &  MPI_ANY_TAG, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_ISEND(a, 10, MPI_DOUBLE_PRECISION, next, 3,
     &  MPI_COMM_WORLD, requests(2), ierr)
      call MPI_WAITALL(2, requests, statuses, ierr)
      call check(statuses(MPI_TAG, 1) .eq. 3, 'waitall')
      call check(b(10) .eq. 100*before + 10, 'irecv')
      call check(requests(1) .eq. MPI_REQUEST_NULL, 'request')
      call MPI_IRECV(b, 10, MPI_DOUBLE_PRECISION, before, 4,
     &  MPI_COMM_WORLD, requests(1), ierr)
      requests(2) = MPI_REQUEST_NULL
      call MPI_SEND(a, 5, MPI_DOUBLE_PRECISION, next, 4,
     &  MPI_COMM_WORLD, ierr)
      call MPI_WAITANY(2, requests, index, MPI_STATUS_IGNORE, ierr)
      call check(index .eq. 1, 'waitany')
      call MPI_WAITANY(2, requests, index, MPI_STATUS_IGNORE, ierr)
      call check(index .eq. MPI_UNDEFINED, 'waitany of none')
      call MPI_WAITALL(2, requests, MPI_STATUSES_IGNORE, ierr)
      call MPI_TEST(requests(1), flag, MPI_STATUS_IGNORE, ierr)
      call check(flag, 'test')

! Collectives.
      total = rank + 1
      call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM,
     &  MPI_COMM_WORLD, ierr)
      call check(total .eq. ranks*(ranks + 1)/2, 'allreduce')
      call MPI_OP_CREATE(count_up, .true., added, ierr)
      total = 1
      call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, added,
     &  MPI_COMM_WORLD, ierr)
      call check(total .eq. ranks, 'op_create')
      call MPI_OP_FREE(added, ierr)

! Texts.
      name = 'x'
      call MPI_GET_PROCESSOR_NAME(name, length, ierr)
      call check(len_trim(name) .eq. length, 'processor name')
      call MPI_ERROR_STRING(MPI_ERR_TAG, text, length, ierr)
      call check(len_trim(text) .eq. length, 'error string')

! Attributes, of which one exists from the start.
      call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, value, flag,
     &  ierr)
      call check(flag .and. value .ge. 32767, 'tag_ub')
      call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, old_value, flag,
     &  ierr)
      call check(flag .and. old_value .eq. value, 'attr_get')
      call MPI_KEYVAL_CREATE(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0,
     &  ierr)
      call MPI_ATTR_PUT(MPI_COMM_WORLD, key, -5, ierr)
      call MPI_ATTR_GET(MPI_COMM_WORLD, key, old_value, flag, ierr)
      call check(flag .and. old_value .eq. -5, 'attr_put')
      call MPI_ATTR_DELETE(MPI_COMM_WORLD, key, ierr)
      call MPI_ATTR_GET(MPI_COMM_WORLD, key, old_value, flag, ierr)
      call check(.not. flag, 'attr_delete')
      call MPI_KEYVAL_FREE(key, ierr)

! A datatype of absolute addresses.
      call MPI_GET_ADDRESS(mine, where(1), ierr)
      call MPI_GET_ADDRESS(theirs, where(2), ierr)
      lengths(1) = 1
      lengths(2) = 1
      types(1) = MPI_INTEGER
      types(2) = MPI_INTEGER
      call MPI_TYPE_CREATE_STRUCT(2, lengths, where, types, pair, ierr)
      call MPI_TYPE_COMMIT(pair, ierr)
      mine = 11
      theirs = 12
      if (rank .ne. 0) mine = 0
      if (rank .ne. 0) theirs = 0
      call MPI_BCAST(MPI_BOTTOM, 1, pair, 0, MPI_COMM_WORLD, ierr)
      call check(mine .eq. 11 .and. theirs .eq. 12, 'bottom')
      call MPI_TYPE_FREE(pair, ierr)
      call check(pair .eq. MPI_DATATYPE_NULL, 'type_free')
      places(1) = 0
      places(2) = 8
      call MPI_TYPE_STRUCT(2, lengths, places, types, pair, ierr)
      call MPI_TYPE_EXTENT(pair, n, ierr)
      call check(n .eq. 12, 'type_extent')

! Errors that return.
      call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
      call MPI_SEND(mine, 1, MPI_INTEGER, ranks, 0, MPI_COMM_WORLD,
     &  code)
      call MPI_ERROR_CLASS(code, n, ierr)
      call check(n .eq. MPI_ERR_RANK, 'error class')

      call check(MPI_WTIME() .ge. started, 'wtime')
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) print '(a)', 'fixed: done'
      call MPI_FINALIZE(ierr)
      end

      subroutine count_up(in, inout, n, type)
      integer n, type, in(n), inout(n), i
      do i = 1, n
        inout(i) = in(i) + inout(i)
      end do
      end

      subroutine check(holds, what)
      logical holds
      character*(*) what
      include 'mpif.h'
      integer ierr
      if (holds) return
      write (0, '(2a)') 'fixed: failed: ', what
      call MPI_ABORT(MPI_COMM_WORLD, 1, ierr)
      end
