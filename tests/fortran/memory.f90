! cxx/memory.cpp in Fortran.
!
!     memory SPACE STEPS [STEP]
module shared_memory
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    function c_raise(signal) bind(C, name="raise") result(status)
      import
      integer(c_int), value :: signal
      integer(c_int) :: status
    end function
    function c_memfd_create(name, flags) bind(C, name="memfd_create") result(file)
      import
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: flags
      integer(c_int) :: file
    end function
    function c_ftruncate(file, bytes) bind(C, name="ftruncate") result(status)
      import
      integer(c_int), value :: file
      integer(c_long), value :: bytes
      integer(c_int) :: status
    end function
    function c_mmap(at, bytes, protection, flags, file, offset) bind(C, name="mmap") result(mapped)
      import
      type(c_ptr), value :: at
      integer(c_size_t), value :: bytes
      integer(c_int), value :: protection, flags, file
      integer(c_long), value :: offset
      type(c_ptr) :: mapped
    end function
    function c_pwrite(file, data, bytes, offset) bind(C, name="pwrite") result(written)
      import
      integer(c_int), value :: file
      integer(c_int64_t), intent(in) :: data(*)
      integer(c_size_t), value :: bytes
      integer(c_long), value :: offset
      integer(c_long) :: written
    end function
  end interface
end module

program memory
  use mpi
  use mainstay
  use shared_memory
  use checks
  use, intrinsic :: iso_fortran_env, only: real64, output_unit
  implicit none
  integer, parameter :: cells = 50000
  real(real64), pointer :: field(:)
  integer(c_int64_t), pointer :: shared(:)
  integer(c_int64_t) :: next(cells)
  integer, target :: step = 0, own = 7
  integer :: rank, ranks, steps, fatal, error, i
  integer(c_int) :: file
  type(c_ptr) :: place
  real(real64) :: total
  character(1000) :: text
  type(mainstay_session) :: session

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(2, text)
  read (text, *) steps
  fatal = 0
  call get_command_argument(3, text)
  if (text /= "") read (text, *) fatal
  call get_command_argument(1, text)

  file = c_memfd_create("shared" // c_null_char, 0_c_int)
  call must(c_ftruncate(file, int(8 * cells, c_long)) == 0, "ftruncate")
  place = c_mmap(c_null_ptr, int(8 * cells, c_size_t), 3_c_int, 1_c_int, file, 0_c_long)
  call c_f_pointer(place, shared, [cells])

  call session%open(MPI_COMM_WORLD, text)
  call session%alloc("field", int(8 * cells, c_size_t), place)
  call c_f_pointer(place, field, [cells])
  call session%alloc("gone", 80_c_size_t, place)
  call session%free("gone")
  call session%protect("step", step)
  call session%protect("shared", shared)
  call session%untrack("shared")
  call session%protect("own", own)
  call session%unprotect("own")
  call must(all(abs(field) <= 0), "memory that was allocated is not of zeros")
  call session%restore()
  call must(own == 7, "what is not protected was restored")
  if (rank == 0) then
    print "(a, i0)", "from step ", step
    flush (output_unit)
  end if
  do while (step < steps)
    field = 0.5_real64 * field + rank + [(i, i = 1, cells)]
    next = mod(3 * shared + step + [(i, i = 1, cells)], 1000003_c_int64_t)
    ! Past the page tables of this process.
    call must(c_pwrite(file, next, int(8 * cells, c_size_t), 0_c_long) == 8 * cells, "pwrite")
    step = step + 1
    if (step == fatal .and. rank == ranks - 1) error = c_raise(9)
    if (mod(step, 10) == 0) call session%checkpoint()
  end do
  total = sum(field) + real(sum(shared), real64)
  call session%close()
  if (rank == 0) print "(a, es25.17)", "sum ", total
  flush (output_unit)
  call MPI_Finalize(error)
end program
