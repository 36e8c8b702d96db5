! Reads revisions from outside a job. Licence: MIT OR Apache-2.0.
!
!     use mainstay_reading
!     type(mainstay_reader) :: reader
!     type(mainstay_item), allocatable :: items(:)
!
!     call reader%open("space")                         ! the newest complete revision; or the one of a number, 12_int64
!     items = reader%items(shard)                       ! the items of the rank of this number
!     call reader%read(shard, "field", offset, some)    ! from this byte on; the first is 0
!     call reader%read_box("plate", [0, 3], part)       ! of a global array, after so many of its elements
!     call reader%close()
!
! A reader needs no job and no write permission. It verifies every block. Shards have the numbers of their ranks, from
! 0. Errors work as in the module mainstay: by `stat`, or by ending the program.
!
! Compile this file after mainstay.f90, with mainstay_fortran.c.
module mainstay_reading
  use, intrinsic :: iso_c_binding
  use mainstay_calls
  implicit none
  private
  public :: mainstay_error_message, mainstay_status_name

  public :: mainstay_item, MAINSTAY_NEWEST, MAINSTAY_BYTES, MAINSTAY_I8, MAINSTAY_U8, MAINSTAY_I16, MAINSTAY_U16, MAINSTAY_I32, &
    MAINSTAY_U32, MAINSTAY_I64, MAINSTAY_U64, MAINSTAY_F16, MAINSTAY_BF16, MAINSTAY_F32, MAINSTAY_F64, MAINSTAY_C64, &
    MAINSTAY_C128, MAINSTAY_BOOL

  ! One revision of a space. A copy is the same reader.
  type, public :: mainstay_reader
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => open_reader
    procedure :: revision
    procedure :: shards
    procedure :: items
    procedure, private :: read_int32, read_int64
    generic :: read => read_int32, read_int64
    procedure, private :: read_box_int32, read_box_int64
    generic :: read_box => read_box_int32, read_box_int64
    procedure :: close => close_reader
  end type

  interface
    function c_open(path, revision, reader) bind(C, name="mainstay_fortran_reader_open") result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int64_t), value :: revision
      type(c_ptr), intent(inout) :: reader
      integer(c_int) :: status
    end function
    pure function c_revision(reader) bind(C, name="mainstay_reader_revision") result(revision)
      import
      type(c_ptr), value, intent(in) :: reader
      integer(c_int64_t) :: revision
    end function
    pure function c_shards(reader) bind(C, name="mainstay_reader_shards") result(shards)
      import
      type(c_ptr), value, intent(in) :: reader
      integer(c_int32_t) :: shards
    end function
    function c_items(reader, shard) bind(C, name="mainstay_reader_items") result(items)
      import
      type(c_ptr), value :: reader
      integer(c_int32_t), value :: shard
      integer(c_size_t) :: items
    end function
    function c_item(reader, shard, index, item) bind(C, name="mainstay_reader_item") result(status)
      import
      type(c_ptr), value :: reader
      integer(c_int32_t), value :: shard
      integer(c_size_t), value :: index
      type(item_of_c), intent(inout) :: item
      integer(c_int) :: status
    end function
    function c_read(reader, shard, name, offset, data, got, whole) &
        bind(C, name="mainstay_fortran_reader_read") result(status)
      import
      type(c_ptr), value :: reader
      integer(c_int), value :: shard
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(inout) :: data
      integer(c_int64_t), intent(inout) :: got
      logical(c_bool), value :: whole
      integer(c_int) :: status
    end function
    function c_read_box(reader, name, numbers, offset, data) &
        bind(C, name="mainstay_fortran_reader_read_box") result(status)
      import
      type(c_ptr), value :: reader
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: numbers
      integer(c_int64_t), intent(in) :: offset(*)
      type(*), dimension(..), intent(inout) :: data
      integer(c_int) :: status
    end function
    function c_close(reader) bind(C, name="mainstay_reader_close") result(status)
      import
      type(c_ptr), value :: reader
      integer(c_int) :: status
    end function
  end interface

contains

  ! Opens the complete revision of this number, or the newest, of the space in the directory `path`. While a job is
  ! running, the reader holds the revision until the close. (`revision` has only one kind, so a `stat` after `path` is
  ! never taken for it.)
  recursive subroutine open_reader(self, path, revision, stat)
    class(mainstay_reader), intent(inout) :: self
    character(*), intent(in) :: path
    integer(c_int64_t), intent(in), optional :: revision
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = MAINSTAY_NEWEST
    if (present(revision)) number = revision
    call settle(c_open(to_c(path), number, self%handle), stat)
  end subroutine

  ! Its number; 0: the reader is not open.
  recursive pure integer(c_int64_t) function revision(self)
    class(mainstay_reader), intent(in) :: self
    revision = c_revision(self%handle)
  end function

  ! The number of shards; the last is shards() - 1.
  recursive pure integer function shards(self)
    class(mainstay_reader), intent(in) :: self
    shards = int(c_shards(self%handle))
  end function

  ! The items of a shard; none if there is no such shard.
  recursive function items(self, shard) result(all)
    class(mainstay_reader), intent(in) :: self
    integer, intent(in) :: shard
    type(mainstay_item), allocatable :: all(:)
    type(item_of_c) :: item
    integer(c_size_t) :: i
    allocate (all(c_items(self%handle, int(shard, c_int32_t))))
    do i = 1, size(all, kind=c_size_t)
      call settle(c_item(self%handle, int(shard, c_int32_t), i - 1, item))
      call item_from(item, all(i))
    end do
  end function

  ! Fills a scalar or a contiguous array, of any type, from byte `offset` of the item `name`. `got`: the number of
  ! bytes read; without it, fewer than `data` has are an error. Pass texts and single bytes as arrays.
  recursive subroutine read_int64(self, shard, name, offset, data, got, stat)
    class(mainstay_reader), intent(in) :: self
    integer, intent(in) :: shard
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: offset
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: there
    integer(c_int) :: status
    there = 0
    status = c_read(self%handle, int(shard, c_int), to_c(name), offset, data, there, logical(.not. present(got), c_bool))
    call settle(status, stat)
    if (present(got)) got = there
  end subroutine

  recursive subroutine read_int32(self, shard, name, offset, data, got, stat)
    class(mainstay_reader), intent(in) :: self
    integer, intent(in) :: shard
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: offset
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got
    integer, intent(out), optional :: stat
    call read_int64(self, shard, name, int(offset, c_int64_t), data, got, stat)
  end subroutine

  ! Fills `data` with a box of its own shape of the global array `name`, from all shards that hold part of it.
  ! `offset` is the number of elements in front of the box along each dimension (0: it begins with the first).
  recursive subroutine read_box_int64(self, name, offset, data, stat)
    class(mainstay_reader), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: offset(:)
    type(*), dimension(..), intent(inout) :: data
    integer, intent(out), optional :: stat
    call settle(c_read_box(self%handle, to_c(name), int(size(offset), c_int), offset, data), stat)
  end subroutine

  recursive subroutine read_box_int32(self, name, offset, data, stat)
    class(mainstay_reader), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: offset(:)
    type(*), dimension(..), intent(inout) :: data
    integer, intent(out), optional :: stat
    call read_box_int64(self, name, int(offset, c_int64_t), data, stat)
  end subroutine

  ! Releases the revision. Does nothing if the reader is not open.
  recursive subroutine close_reader(self, stat)
    class(mainstay_reader), intent(inout) :: self
    integer, intent(out), optional :: stat
    type(c_ptr) :: handle
    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_close(handle), stat)
  end subroutine
end module
