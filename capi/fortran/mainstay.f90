! Mainstay for Fortran 2018. Licence: MIT OR Apache-2.0.
!
!     use mainstay
!     type(mainstay_session) :: session
!
!     call session%open(MPI_COMM_WORLD, "space")     ! with mpi_f08: MPI_COMM_WORLD%MPI_VAL
!     call session%protect("step", step)
!     call session%protect("field", field)           ! any intrinsic type, any rank
!     call session%restore(revision)                 ! 0: there was nothing
!     call session%checkpoint()
!     call session%close()                           ! before MPI_Finalize
!
! mainstay.h describes each call, and says which calls are collective. Each call takes an optional `stat`:
! MAINSTAY_OK, or an error that mainstay_error_message() explains. Without `stat` an error ends the job with its
! message, as an error of allocate or open does.
!
! A protected variable must stay at its address until you unprotect it or close the session. Use variables of modules
! and main programs, with the save attribute, allocatable or pointer. Give them the target attribute, which tells the
! compiler of the other accesses. Blanks at the end of names and paths do not count.
!
! Compile this file with your program, together with mainstay_fortran.c, which mpicc compiles. It includes the files
! mainstay_*.inc from its own folder. The module of mainstay_reader.f90 reads revisions from outside a job.

include "mainstay_c.inc"

! Common part of the modules for users.
module mainstay_calls
  use, intrinsic :: iso_c_binding
  use mainstay_c, only: item_of_c => mainstay_item, c_status_name, c_message, c_keep_message, c_abort
  use mainstay_elements, only: MAINSTAY_BYTES
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private
  public :: mainstay_error_message, mainstay_status_name, settle, to_c, of_c, item_from

  ! An item of a shard. All shapes and offsets are in Fortran's order: the fastest dimension first.
  type, public :: mainstay_item
    character(:), allocatable :: name
    integer :: kind = 0             ! 0: a region, 1: a buffer that was put, 2: a stream
    integer :: type = MAINSTAY_BYTES
    integer(c_int64_t) :: bytes = 0
    ! For a type without a name in the space, such as a derived type, the first dimension is the bytes of an element.
    integer(c_int64_t), allocatable :: shape(:)
    ! Shape of the global array in which the item is a box, and the number of elements in front of the box along each
    ! dimension. Not allocated: it is no box.
    integer(c_int64_t), allocatable :: global_shape(:), offset(:)
  end type

  interface
    function c_strlen(text) bind(C, name="strlen") result(length)
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! Message of the last failed call: the problem, the object, and the remedy.
  recursive function mainstay_error_message() result(text)
    character(:), allocatable :: text
    text = of_c(c_message())
  end function

  ! The name of a status, without its prefix: "DISK_FULL".
  recursive function mainstay_status_name(status) result(text)
    integer, intent(in) :: status
    character(:), allocatable :: text
    text = of_c(c_status_name(int(status, c_int32_t)))
  end function

  ! The end of every call.
  recursive subroutine settle(status, stat)
    integer(c_int), intent(in) :: status
    integer, intent(out), optional :: stat
    if (present(stat)) stat = status
    if (status == 0) return
    call c_keep_message()
    if (present(stat)) return
    write (error_unit, "(5a)") "mainstay: ", mainstay_status_name(int(status)), ": ", mainstay_error_message()
    flush (error_unit)
    call c_abort()
  end subroutine

  recursive function to_c(text) result(ended)
    character(*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: ended
    ended = trim(text) // c_null_char
  end function

  recursive function of_c(text) result(value)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: value
    character(kind=c_char), pointer :: characters(:)
    integer :: i, length
    length = int(c_strlen(text))
    call c_f_pointer(text, characters, [length])
    allocate (character(length) :: value)
    do i = 1, length
      value(i:i) = characters(i)
    end do
  end function

  ! Converts an item from C to Fortran.
  recursive subroutine item_from(found, item)
    type(item_of_c), intent(in) :: found
    type(mainstay_item), intent(inout) :: item
    item%name = of_c(found%name)
    item%kind = int(found%kind)
    item%type = int(found%type)
    item%bytes = found%bytes
    item%shape = turned(found%shape)
    if (.not. c_associated(found%global_shape)) return
    item%global_shape = turned(found%global_shape)
    item%offset = turned(found%offset)
  contains
    recursive function turned(numbers)
      type(c_ptr), intent(in) :: numbers
      integer(c_int64_t), allocatable :: turned(:)
      integer(c_int64_t), pointer :: there(:)
      call c_f_pointer(numbers, there, [found%dimensions])
      turned = there(found%dimensions:1:-1)
    end function
  end subroutine
end module

module mainstay_sessions
  use, intrinsic :: iso_c_binding
  use mainstay_c, item_of_c => mainstay_item
  use mainstay_calls
  use mainstay_constants
  implicit none
  private
  public :: mainstay_set, mainstay_finalize, mainstay_layout, mainstay_step, mainstay_where, mainstay_resize

  ! One job at work on one space. A copy is the same session: after one is closed, or has left, do not use the other.
  type, public :: mainstay_session
    private
    type(c_ptr) :: handle = c_null_ptr
    integer, pointer :: failed => null()
  contains
    procedure, private :: open_mpi
    generic :: open => open_mpi
    procedure :: open_solo
    procedure :: is_open
    procedure :: protect
    procedure, private :: protect_box_int32, protect_box_int64
    generic :: protect_box => protect_box_int32, protect_box_int64
    procedure :: follow
    procedure :: move
    procedure :: untrack
    procedure :: same_on_all_ranks
    procedure :: any_number_of_ranks
    procedure, private :: settled_int32, settled_int64
    generic :: settled => settled_int32, settled_int64
    procedure :: speculation
    procedure :: unprotect
    procedure :: unprotect_all
    procedure :: alloc
    procedure :: free
    procedure :: leave_out
    procedure :: protect_globals
    procedure :: protect_heap
    procedure :: protect_output
    procedure :: restore
    procedure :: choose
    procedure :: revisions
    procedure :: revision_note
    procedure :: report
    procedure :: restored_note
    procedure :: note
    procedure, private :: due_int32, due_int64
    generic :: due => due_int32, due_int64
    procedure :: checkpoint
    procedure, private :: begin_int32, begin_int64
    generic :: begin => begin_int32, begin_int64
    procedure, private :: write_int32, write_int64
    generic :: write => write_int32, write_int64
    procedure :: abandon
    procedure, private :: read_int32, read_int64
    generic :: read => read_int32, read_int64
    procedure :: stream_bytes
    procedure :: streams
    procedure :: stream
    procedure :: shards
    procedure :: bring_shards
    procedure :: shard_items
    procedure, private :: read_shard_int32, read_shard_int64
    generic :: read_shard => read_shard_int32, read_shard_int64
    procedure :: put
    procedure :: get
    procedure :: get_bytes
    procedure :: saved
    procedure :: wait => wait_until_complete
    procedure :: wait_for
    procedure :: progress
    procedure :: tick
    procedure :: poll
    procedure :: last_record
    procedure :: comm
    procedure :: adopt
    procedure :: recover
    procedure :: check
    procedure :: run
    procedure :: fail
    procedure :: close => close_session
    procedure :: leave => leave_session
  end type

  ! Callbacks of `run`. `layout` prepares the program on the present ranks, and protects the state. `step` does the
  ! step of this number, or sets `over` if there is none any more. Both report a failed call by `fail`.
  abstract interface
    subroutine mainstay_layout(session)
      import :: mainstay_session
      type(mainstay_session), intent(in) :: session
    end subroutine
    subroutine mainstay_step(session, step, over)
      import :: mainstay_session, c_int64_t
      type(mainstay_session), intent(in) :: session
      integer(c_int64_t), intent(in) :: step
      logical, intent(inout) :: over
    end subroutine
  end interface

  type :: steps
    type(mainstay_session) :: session
    procedure(mainstay_layout), pointer, nopass :: layout
    procedure(mainstay_step), pointer, nopass :: step
  end type

  ! Returns the address of a region: c_loc of its first element, or c_null_ptr if there is none.
  abstract interface
    type(c_ptr) function mainstay_where() bind(C)
      import :: c_ptr
    end function
  end interface

  ! Gives a region its saved shape, in Fortran's order.
  abstract interface
    subroutine mainstay_resize(dimensions, shape) bind(C)
      import :: c_int, c_int64_t
      integer(c_int), value :: dimensions
      integer(c_int64_t), intent(in) :: shape(dimensions)
    end subroutine
  end interface
contains

  ! Sets any setting of the guide's table, such as "memory" to "auto". The value is written as in the environment. It
  ! overrides the component of the same name. Local.
  recursive subroutine mainstay_set(options, key, value, stat)
    type(mainstay_options), intent(inout) :: options
    character(*), intent(in) :: key, value
    integer, intent(out), optional :: stat
    options%size_of_options = c_sizeof(options)
    call settle(c_set(options, to_c(key), to_c(value)), stat)
  end subroutine

  ! Opens the space in the directory `path` for the ranks of `comm`. Collective.
  recursive subroutine open_mpi(self, comm, path, options, stat)
    class(mainstay_session), intent(inout) :: self
    integer, intent(in) :: comm
    character(*), intent(in) :: path
    type(mainstay_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    call settle(c_open(int(comm, c_int), to_c(path), sized(options), self%handle), stat)
  end subroutine

  ! The same for a program of one process; MPI need not be initialized.
  recursive subroutine open_solo(self, path, options, stat)
    class(mainstay_session), intent(inout) :: self
    character(*), intent(in) :: path
    type(mainstay_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    call settle(c_open_solo(to_c(path), sized(options), self%handle), stat)
  end subroutine

  recursive logical function is_open(self)
    class(mainstay_session), intent(in) :: self
    is_open = c_associated(self%handle)
  end function

  ! Restores the newest complete revision, or the one of this `number`. `revision` 0: there was nothing to restore.
  ! `skipped`: the number of damaged parts; `report` describes them. `step`: the last step given to `due` before the
  ! program saved the revision; 0: none.
  recursive subroutine restore(self, revision, skipped, stat, number, step)
    class(mainstay_session), intent(in) :: self
    integer(c_int64_t), intent(out), optional :: revision, skipped, step
    integer, intent(out), optional :: stat
    integer(c_int64_t), intent(in), optional :: number
    type(mainstay_restored) :: restored
    call settle(c_restore_revision(self%handle, asked(number), restored), stat)
    if (present(revision)) revision = restored%revision
    if (present(skipped)) skipped = restored%skipped
    if (present(step)) step = restored%step
  end subroutine

  ! Goes back like `restore`, but fills nothing: read the items by `read_shard`.
  recursive subroutine choose(self, revision, skipped, stat, number, step)
    class(mainstay_session), intent(in) :: self
    integer(c_int64_t), intent(out), optional :: revision, skipped, step
    integer, intent(out), optional :: stat
    integer(c_int64_t), intent(in), optional :: number
    type(mainstay_restored) :: chosen
    call settle(c_choose(self%handle, asked(number), chosen), stat)
    if (present(revision)) revision = chosen%revision
    if (present(skipped)) skipped = chosen%skipped
    if (present(step)) step = chosen%step
  end subroutine

  ! The complete revisions that `restore` and `choose` can go back to, the newest first. Collective.
  recursive function revisions(self, stat) result(all)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    type(mainstay_listed_revision), allocatable :: all(:)
    integer(c_size_t) :: count, i
    integer(c_int) :: status
    count = 0
    status = c_revisions(self%handle, count)
    allocate (all(merge(count, 0_c_size_t, status == 0)))
    do i = 1, size(all, kind=c_size_t)
      status = c_revision(self%handle, i - 1, all(i))
      if (status /= 0) exit
    end do
    call settle(status, stat)
  end function

  ! This rank's note `name` in revision `index` of the last `revisions`, counted from 1. `text` is not allocated if
  ! there is none.
  recursive subroutine revision_note(self, index, name, text)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: index
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: text
    type(c_ptr) :: noted
    noted = c_revision_note(self%handle, int(index, c_size_t) - 1, to_c(name))
    if (c_associated(noted)) text = of_c(noted)
  end subroutine

  ! The damage that the last restore found and passed over, one line each; "" if none.
  recursive function report(self) result(text)
    class(mainstay_session), intent(in) :: self
    character(:), allocatable :: text
    text = of_c(c_report(self%handle))
  end function

  ! This rank's note `name` in the restored revision; `text` is not allocated if there is none.
  recursive subroutine restored_note(self, name, text)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: text
    type(c_ptr) :: noted
    noted = c_restored_note(self%handle, to_c(name))
    if (c_associated(noted)) text = of_c(noted)
  end subroutine

  ! Sets a note: every revision from now on carries `text` under `name`.
  recursive subroutine note(self, name, text, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name, text
    integer, intent(out), optional :: stat
    call settle(c_note(self%handle, to_c(name), text // c_null_char), stat)
  end subroutine

  ! Whether the program should checkpoint now, after `step` steps. The call has an effect: use it alone in its
  ! condition, because .and. and .or. may skip a call whose result cannot matter.
  recursive logical function due_int64(self, step, stat) result(due)
    class(mainstay_session), intent(in) :: self
    integer(c_int64_t), intent(in) :: step
    integer, intent(out), optional :: stat
    integer(c_int) :: answer
    answer = 0
    call settle(c_due(self%handle, step, answer), stat)
    due = answer /= 0
  end function

  recursive logical function due_int32(self, step, stat) result(due)
    class(mainstay_session), intent(in) :: self
    integer(c_int32_t), intent(in) :: step
    integer, intent(out), optional :: stat
    due = due_int64(self, int(step, c_int64_t), stat)
  end function

  ! Saves all protected regions and returns when the program may go on. Collective.
  recursive subroutine checkpoint(self, revision, stat)
    class(mainstay_session), intent(in) :: self
    integer(c_int64_t), intent(out), optional :: revision
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = 0
    call settle(c_checkpoint(self%handle, number), stat)
    if (present(revision)) revision = number
  end subroutine

  ! The number of a revision, for C.
  recursive pure integer(c_int64_t) function asked(number)
    integer(c_int64_t), intent(in), optional :: number
    asked = MAINSTAY_NEWEST
    if (present(number)) asked = number
  end function

  ! Waits until the last revision is complete. Collective. If it failed, all ranks get the error once, here or from
  ! `checkpoint`. Then nothing is in progress, and this returns at once until the next checkpoint.
  recursive subroutine wait_until_complete(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_wait(self%handle), stat)
  end subroutine

  ! Waits until the last revision that went to `level` is complete there: "memory", "disk", or "space", the space that
  ! you opened. It does not wait for the levels behind it. Collective.
  recursive subroutine wait_for(self, level, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: level
    integer, intent(out), optional :: stat
    call settle(c_wait_for(self%handle, to_c(level)), stat)
  end subroutine

  ! Advances the transfers between this rank and others, such as copies to other nodes: for programs that compute for
  ! long between two calls. Never waits.
  recursive subroutine progress(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_progress(self%handle), stat)
  end subroutine

  ! Marks a moment inside a step, at which Mainstay looks for the pages that the program has written, with the
  ! settings trace or predictor. Never waits.
  recursive subroutine tick(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_tick(self%handle), stat)
  end subroutine

  ! Whether this rank's part of the last revision is durable. Also true if nothing is in progress, because nothing was
  ! saved yet, or all ranks know that it failed.
  recursive logical function poll(self, stat) result(durable)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    integer(c_int) :: answer
    answer = 0
    call settle(c_poll(self%handle, answer), stat)
    durable = answer /= 0
  end function

  recursive subroutine last_record(self, record, stat)
    class(mainstay_session), intent(in) :: self
    type(mainstay_record), intent(out) :: record
    integer, intent(out), optional :: stat
    call settle(c_last_record(self%handle, record), stat)
  end subroutine

  ! Results of saving early on this rank.
  recursive subroutine speculation(self, told, stat)
    class(mainstay_session), intent(in) :: self
    type(mainstay_speculation), intent(out) :: told
    integer, intent(out), optional :: stat
    call settle(c_speculated(self%handle, told), stat)
  end subroutine

  ! Waits for the last revision and ends the session, even if `stat` is an error. Collective.
  recursive subroutine close_session(self, stat)
    class(mainstay_session), intent(inout) :: self
    integer, intent(out), optional :: stat
    type(c_ptr) :: handle
    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_close(handle), stat)
  end subroutine

  ! Ends the session of this rank without the others, for instance after an error of this rank alone: its part of the
  ! last revision becomes durable. The other ranks wait in their next collective call until the job ends. Local.
  recursive subroutine leave_session(self, stat)
    class(mainstay_session), intent(inout) :: self
    integer, intent(out), optional :: stat
    type(c_ptr) :: handle
    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_leave(handle), stat)
  end subroutine

  recursive function sized(options) result(all)
    type(mainstay_options), intent(in), optional :: options
    type(mainstay_options) :: all
    if (present(options)) all = options
    all%size_of_options = c_sizeof(all)
  end function

  ! Ends MPI, in place of MPI_Finalize, and after a recovery also the process, with `status`. Flush your output first.
  recursive subroutine mainstay_finalize(status)
    integer, intent(in) :: status
    call c_finalize(int(status, c_int))
  end subroutine

  include "mainstay_regions.inc"
  include "mainstay_streams.inc"
  include "mainstay_recovery.inc"
end module

! All that `use mainstay` makes known.
module mainstay
  use mainstay_constants
  use mainstay_calls, only: mainstay_item, mainstay_error_message, mainstay_status_name
  ! Memory of the heap, for c_f_pointer: `mainstay_heap_calloc(count, bytes)` is the address of `count` elements of
  ! `bytes` bytes each, all zero, or c_null_ptr. It has the same address in each run that makes the same calls.
  ! session%protect_heap protects it. `call mainstay_heap_free(memory)` frees it: pass c_loc of the pointer.
  use mainstay_c, only: mainstay_options, mainstay_speculation, mainstay_record, mainstay_listed_revision, &
    mainstay_heap_calloc => c_heap_calloc, mainstay_heap_free => c_heap_free
  use mainstay_sessions, only: mainstay_session, mainstay_set, mainstay_finalize, mainstay_layout, mainstay_step, &
    mainstay_where, mainstay_resize
end module
