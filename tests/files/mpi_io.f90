! Writes files from all ranks by MPI-IO in Fortran, by the calls in its arguments: mpi_io FILE CALL...
!
! - create, update: MPI_File_open, by all ranks. close: MPI_File_close.
! - write:V: each rank writes its blocks, in turn with the others: numbers, each of them the value.
! - barrier: MPI_Barrier. kill:R: rank R kills itself.
!
! Each call prints "RANK CALL ok", or "RANK CALL" with the error.
program writes
#ifdef OF_2008
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: numbers = 250, blocks = 40
  integer :: rank, ranks, error, at
  character(len=4096) :: path, word
#ifdef OF_2008
  type(MPI_File) :: file
#else
  integer :: file
#endif
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, path)
  do at = 2, command_argument_count()
    call get_command_argument(at, word)
    call do_call(word(:index(word // ':', ':') - 1), word(index(word // ':', ':') + 1:))
    if (error == 0) then
      print '(i0,3a)', rank, ' ', trim(word), ' ok'
    else
      print '(i0,3a,i0)', rank, ' ', trim(word), ' ', error
    end if
    flush (6)
  end do
  call MPI_Finalize(error)

contains

  subroutine do_call(name, text)
    character(len=*), intent(in) :: name, text
    integer :: value, block, content(numbers)
    integer(MPI_OFFSET_KIND) :: place
    value = 0
    if (text /= '') read (text, *) value
    select case (name)
    case ('create')
      call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, error)
    case ('update')
      call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_RDWR, MPI_INFO_NULL, file, error)
    case ('write')
      content = value
      do block = 0, blocks - 1
        place = 4_MPI_OFFSET_KIND * numbers * (block * ranks + rank)
        call MPI_File_write_at_all(file, place, content, numbers, MPI_INTEGER, MPI_STATUS_IGNORE, error)
      end do
    case ('close')
      call MPI_File_close(file, error)
    case ('barrier')
      call MPI_Barrier(MPI_COMM_WORLD, error)
    case ('kill')
      if (rank == value) call kill_self()
    end select
  end subroutine

  subroutine kill_self()
    use, intrinsic :: iso_c_binding, only: c_int
    interface
      integer(c_int) function raise(number) bind(C, name='raise')
        import
        integer(c_int), value :: number
      end function
    end interface
    error = raise(9_c_int)
  end subroutine
end program
