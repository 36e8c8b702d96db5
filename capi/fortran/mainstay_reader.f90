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
module mainstay_readers
  use, intrinsic :: iso_c_binding
  use mainstay_c, item_of_c => mainstay_item
  use mainstay_calls
  use mainstay_elements
  implicit none
  private

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
    call settle(c_reader_open(to_c(path), number, self%handle), stat)
  end subroutine

  ! Its number; 0: the reader is not open.
  recursive pure integer(c_int64_t) function revision(self)
    class(mainstay_reader), intent(in) :: self
    revision = c_reader_revision(self%handle)
  end function

  ! The number of shards; the last is shards() - 1.
  recursive pure integer function shards(self)
    class(mainstay_reader), intent(in) :: self
    shards = int(c_reader_shards(self%handle))
  end function

  ! The items of a shard; none if there is no such shard.
  recursive function items(self, shard) result(all)
    class(mainstay_reader), intent(in) :: self
    integer, intent(in) :: shard
    type(mainstay_item), allocatable :: all(:)
    type(item_of_c) :: item
    integer(c_size_t) :: i
    allocate (all(c_reader_items(self%handle, int(shard, c_int32_t))))
    do i = 1, size(all, kind=c_size_t)
      call settle(c_reader_item(self%handle, int(shard, c_int32_t), i - 1, item))
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
    status = c_reader_read(self%handle, int(shard, c_int), to_c(name), offset, data, there, logical(.not. present(got), c_bool))
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
    call settle(c_reader_read_box(self%handle, to_c(name), int(size(offset), c_int), offset, data), stat)
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
    call settle(c_reader_close(handle), stat)
  end subroutine
end module

! All that `use mainstay_reading` makes known.
module mainstay_reading
  use mainstay_elements
  use mainstay_calls, only: mainstay_item, mainstay_error_message, mainstay_status_name
  use mainstay_readers, only: mainstay_reader
end module
