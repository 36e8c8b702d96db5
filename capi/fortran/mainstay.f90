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
! Compile this file with your program, together with mainstay_fortran.c, which mpicc compiles. It includes
! mainstay_c.inc from its own folder. The module of mainstay_reader.f90 reads revisions from outside a job.

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

  ! Protects a scalar or an array under `name`, with its size at this call. A section of an array may be given, such
  ! as field(1:n, 1:m) of one with ghost cells, if its bounds have no step. Memory around it stays as it is.
  recursive subroutine protect(self, name, data, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), target, intent(inout) :: data
    integer, intent(out), optional :: stat
    call settle(c_protect(self%handle, to_c(name), data), stat)
  end subroutine

  ! Like protect, for a box in a global array of shape `global_shape`. `offset` is the number of elements in front of
  ! the box along each dimension (0: it begins with the first). Any number of ranks fills its boxes from the saved
  ! ones. An array of no elements means that this rank has no part.
  recursive subroutine protect_box_int64(self, name, data, global_shape, offset, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), target, intent(inout) :: data
    integer(c_int64_t), intent(in) :: global_shape(:), offset(:)
    integer, intent(out), optional :: stat
    integer :: numbers
    ! If their lengths differ, they fit no array.
    numbers = merge(size(offset), -1, size(offset) == size(global_shape))
    call settle(c_protect_box(self%handle, to_c(name), data, int(numbers, c_int), global_shape, offset), stat)
  end subroutine

  recursive subroutine protect_box_int32(self, name, data, global_shape, offset, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), target, intent(inout) :: data
    integer(c_int32_t), intent(in) :: global_shape(:), offset(:)
    integer, intent(out), optional :: stat
    call protect_box_int64(self, name, data, int(global_shape, c_int64_t), int(offset, c_int64_t), stat)
  end subroutine

  ! Follows the region `name`: Mainstay calls `where` for its address once here, and once at each checkpoint and each
  ! restore. For programs that swap pointers, or allocatables by move_alloc: their regions would come back exchanged.
  ! `where` is a function of a module: type(c_ptr) function where_cur() bind(C), with where_cur = c_loc(cur) for
  ! protect("cur", cur), or c_loc(cur(1, 0)) for protect("cur", cur(1:n, 0:m)). The shape stays, unless you pass
  ! `resize`. A restore then calls `resize` if the saved shape differs: subroutine resize_cur(dimensions, shape)
  ! bind(C) allocates the array anew.
  recursive subroutine follow(self, name, where, stat, resize)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    procedure(mainstay_where) :: where
    integer, intent(out), optional :: stat
    procedure(mainstay_resize), optional :: resize
    type(c_funptr) :: resizes
    resizes = c_null_funptr
    if (present(resize)) resizes = c_funloc(resize)
    call settle(c_follow(self%handle, to_c(name), c_funloc(where), resizes), stat)
  end subroutine

  ! Moves the region `name` to `data`, which may have another size: after an allocate, or a move_alloc. A box of a
  ! global array keeps its offset.
  recursive subroutine move(self, name, data, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), target, intent(inout) :: data
    integer, intent(out), optional :: stat
    call settle(c_move(self%handle, to_c(name), data), stat)
  end subroutine

  ! Finds the changes of a region by hashes instead of written pages: for memory that a network card, a GPU or another
  ! process writes.
  recursive subroutine untrack(self, name, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call settle(c_untrack(self%handle, to_c(name)), stat)
  end subroutine

  ! Declares that all ranks have the same bytes in this region, so any number of ranks gets it back.
  recursive subroutine same_on_all_ranks(self, name, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call settle(c_same_on_all_ranks(self%handle, to_c(name)), stat)
  end subroutine

  ! Declares that any number of ranks can take over the shards of this job: the program divides them anew itself.
  recursive subroutine any_number_of_ranks(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_any_number_of_ranks(self%handle), stat)
  end subroutine

  ! Promises that the program will not write `bytes` bytes of a region, from byte `offset` (from 0) on, before the
  ! next checkpoint. With the setting predictor Mainstay saves them at once, in the background. Never waits for a
  ! write.
  recursive subroutine settled_int64(self, name, offset, bytes, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: offset, bytes
    integer, intent(out), optional :: stat
    call settle(c_settled(self%handle, to_c(name), offset, bytes), stat)
  end subroutine

  recursive subroutine settled_int32(self, name, offset, bytes, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: offset, bytes
    integer, intent(out), optional :: stat
    call settled_int64(self, name, int(offset, c_int64_t), int(bytes, c_int64_t), stat)
  end subroutine

  ! Results of saving early on this rank.
  recursive subroutine speculation(self, told, stat)
    class(mainstay_session), intent(in) :: self
    type(mainstay_speculation), intent(out) :: told
    integer, intent(out), optional :: stat
    call settle(c_speculated(self%handle, told), stat)
  end subroutine

  recursive subroutine unprotect(self, name, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call settle(c_unprotect(self%handle, to_c(name)), stat)
  end subroutine

  ! Removes all regions.
  recursive subroutine unprotect_all(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_unprotect_all(self%handle), stat)
  end subroutine

  ! Memory of `bytes` bytes, all zero, for c_f_pointer, protected under `name`. `flags` is a sum of
  ! MAINSTAY_ALLOC_FLAG_: pass the flag if MPI or input writes into it. The memory stays until you free it or close
  ! the session.
  recursive subroutine alloc(self, name, bytes, memory, flags, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr), intent(out) :: memory
    integer(c_int32_t), intent(in), optional :: flags
    integer, intent(out), optional :: stat
    integer(c_int32_t) :: given
    memory = c_null_ptr
    given = MAINSTAY_ALLOC_FLAG_PLAIN
    if (present(flags)) given = flags
    call settle(c_alloc(self%handle, to_c(name), bytes, given, memory), stat)
  end subroutine

  ! Unprotects and frees the memory allocated under `name`.
  recursive subroutine free(self, name, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call settle(c_free(self%handle, to_c(name)), stat)
  end subroutine

  ! Protects the program's own variables: those of modules and common blocks, and with the save attribute. A main
  ! program needs the statement `save`, because gfortran puts some of its variables on the stack. The variables come
  ! back in a fresh run of the same program. An allocatable that is protected by its name stays allocated at its
  ! address. Allocate every other allocatable or pointer only after the restore. It must not be allocated when the
  ! program saves.
  recursive subroutine protect_globals(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_protect_globals(self%handle), stat)
  end subroutine

  ! Protects all memory that the heap (mainstay_heap_calloc) has returned and will return, with the pointers in it.
  ! Pointers of modules to such memory come back with protect_globals, in a program linked with -no-pie.
  recursive subroutine protect_heap(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_protect_heap(self%handle), stat)
  end subroutine

  ! Makes a later protect_globals leave out a variable: it is not saved, and stays as it is.
  recursive subroutine leave_out(self, data, stat)
    class(mainstay_session), intent(in) :: self
    type(*), dimension(..), target, intent(in) :: data
    integer, intent(out), optional :: stat
    call settle(c_leave_out(self%handle, data), stat)
  end subroutine

  ! Ends MPI, in place of MPI_Finalize, and after a recovery also the process, with `status`. Flush your output first.
  recursive subroutine mainstay_finalize(status)
    integer, intent(in) :: status
    call c_finalize(int(status, c_int))
  end subroutine

  ! The communicator of the ranks of the session, a new one after each recovery. With mpi_f08: MPI_Comm(session%comm()).
  recursive integer function comm(self)
    class(mainstay_session), intent(in) :: self
    comm = c_comm(self%handle)
  end function

  ! Frees the waiting calls of a communicator of the program when ranks fail.
  recursive subroutine adopt(self, comm, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: comm
    integer, intent(out), optional :: stat
    call settle(c_adopt(self%handle, int(comm, c_int)), stat)
  end subroutine

  ! Goes on without the failed ranks.
  recursive subroutine recover(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_recover(self%handle), stat)
  end subroutine

  ! MAINSTAY_GROUP_FAILED if this rank knows of failed ranks.
  recursive subroutine check(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_check(self%handle), stat)
  end subroutine

  ! Runs the program as steps, from the newest complete revision if there is one, and through failures of ranks.
  recursive subroutine run(self, layout, step, stat)
    class(mainstay_session), intent(in) :: self
    procedure(mainstay_layout) :: layout
    procedure(mainstay_step) :: step
    integer, intent(out), optional :: stat
    type(steps), target :: all
    integer, target :: failed
    all%layout => layout
    all%step => step
    all%session%failed => failed
    call settle(c_run(self%handle, c_funloc(lay_out), c_funloc(take_step), c_loc(all)), stat)
  end subroutine

  ! For the session that `run` passes to a layout or a step: reports the status of a failed call, after which the
  ! callback returns. After MAINSTAY_GROUP_FAILED, which also stands for an error of MPI, `run` recovers and goes on.
  ! It returns any other status.
  recursive subroutine fail(self, status)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: status
    if (associated(self%failed)) self%failed = status
  end subroutine

  recursive function lay_out(session, context) bind(C, name="mainstay_fortran_lay_out") result(status)
    type(c_ptr), value :: session, context
    integer(c_int) :: status
    type(steps), pointer :: all
    call c_f_pointer(context, all)
    all%session%handle = session
    all%session%failed = MAINSTAY_OK
    call all%layout(all%session)
    status = int(all%session%failed, c_int)
  end function

  recursive function take_step(session, step, over, context) bind(C, name="mainstay_fortran_take_step") &
      result(status)
    type(c_ptr), value :: session, context
    integer(c_int64_t), value :: step
    integer(c_int), intent(out) :: over
    integer(c_int) :: status
    type(steps), pointer :: all
    logical :: is_over
    call c_f_pointer(context, all)
    all%session%handle = session
    all%session%failed = MAINSTAY_OK
    is_over = .false.
    call all%step(all%session, step, is_over)
    over = merge(1, 0, is_over)
    status = int(all%session%failed, c_int)
  end function

  ! Registers a file that this rank appends to; `flush` it before a checkpoint.
  recursive subroutine protect_output(self, path, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    call settle(c_protect_output(self%handle, to_c(path)), stat)
  end subroutine

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

  ! Begins a checkpoint that the program writes in pieces, of at most `bytes` bytes on this rank, gaps in a stream
  ! included; `checkpoint` ends it. Collective. `revision`: the number that it will have.
  recursive subroutine begin_int64(self, bytes, revision, stat)
    class(mainstay_session), intent(in) :: self
    integer(c_int64_t), intent(in) :: bytes
    integer(c_int64_t), intent(out), optional :: revision
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = 0
    call settle(c_begin(self%handle, bytes, number), stat)
    if (present(revision)) revision = number
  end subroutine

  recursive subroutine begin_int32(self, bytes, revision, stat)
    class(mainstay_session), intent(in) :: self
    integer(c_int32_t), intent(in) :: bytes
    integer(c_int64_t), intent(out), optional :: revision
    integer, intent(out), optional :: stat
    call begin_int64(self, int(bytes, c_int64_t), revision, stat)
  end subroutine

  ! Writes a scalar or a contiguous array, of any type, from byte `offset` (the first is 0) of the stream `name` on.
  ! Pass texts and single bytes as arrays: ["text"].
  recursive subroutine write_int64(self, name, offset, data, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: offset
    type(*), dimension(..), intent(in) :: data
    integer, intent(out), optional :: stat
    call settle(c_write(self%handle, to_c(name), offset, data), stat)
  end subroutine

  recursive subroutine write_int32(self, name, offset, data, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: offset
    type(*), dimension(..), intent(in) :: data
    integer, intent(out), optional :: stat
    call settle(c_write(self%handle, to_c(name), int(offset, c_int64_t), data), stat)
  end subroutine

  ! Abandons the checkpoint that has begun; its number is used up. Collective.
  recursive subroutine abandon(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    call settle(c_abandon(self%handle), stat)
  end subroutine

  ! Fills `data` from byte `offset` of the stream `name` of the restored revision. `got`: the number of bytes read;
  ! without it, fewer than `data` has are an error.
  recursive subroutine read_int64(self, name, offset, data, got, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: offset
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: there
    there = 0
    call settle(c_read(self%handle, to_c(name), offset, data, there, logical(.not. present(got), c_bool)), stat)
    if (present(got)) got = there
  end subroutine

  recursive subroutine read_int32(self, name, offset, data, got, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: offset
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got
    integer, intent(out), optional :: stat
    call read_int64(self, name, int(offset, c_int64_t), data, got, stat)
  end subroutine

  ! The length of the stream `name` of the restored revision.
  recursive integer(c_int64_t) function stream_bytes(self, name, stat) result(bytes)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    bytes = 0
    call settle(c_stream_bytes(self%handle, to_c(name), bytes), stat)
  end function

  ! The number of this rank's streams in the restored revision.
  recursive integer function streams(self, stat) result(count)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    integer(c_size_t) :: there
    there = 0
    call settle(c_streams(self%handle, there), stat)
    count = int(there)
  end function

  ! Name and length of stream `index` of these, from 1 on.
  recursive subroutine stream(self, index, name, bytes, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: index
    character(:), allocatable, intent(out) :: name
    integer(c_int64_t), intent(out), optional :: bytes
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: there
    type(c_ptr) :: text
    text = c_null_ptr
    there = 0
    call settle(c_stream(self%handle, int(index, c_size_t) - 1, text, there), stat)
    name = ""
    if (c_associated(text)) name = of_c(text)
    if (present(bytes)) bytes = there
  end subroutine

  ! The number of ranks that saved the restored revision: the shard of each has its number, from 0. 0: nothing was
  ! restored, or a checkpoint has begun since.
  recursive integer function shards(self, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    integer(c_int32_t) :: count
    count = 0
    call settle(c_shards(self%handle, count), stat)
    shards = int(count)
  end function

  ! Lets this rank read these shards, on whichever node they are; from then on shard_items lists the items of all.
  ! Collective; each rank passes the shards that it wants, which may be none: [integer ::]. Valid until the next
  ! checkpoint begins.
  recursive subroutine bring_shards(self, wanted, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: wanted(:)
    integer, intent(out), optional :: stat
    call settle(c_bring_shards(self%handle, int(wanted, c_int), size(wanted, kind=c_size_t)), stat)
  end subroutine

  ! The items of a shard: one that this rank can read, or, after bring_shards, any.
  recursive function shard_items(self, shard, stat) result(all)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: shard
    integer, intent(out), optional :: stat
    type(mainstay_item), allocatable :: all(:)
    type(item_of_c) :: item
    integer(c_size_t) :: count, i
    integer(c_int) :: status
    count = 0
    status = c_shard_items(self%handle, int(shard, c_int32_t), count)
    allocate (all(merge(count, 0_c_size_t, status == 0)))
    do i = 1, size(all, kind=c_size_t)
      status = c_shard_item(self%handle, int(shard, c_int32_t), i - 1, item)
      if (status /= 0) exit
      call item_from(item, all(i))
    end do
    call settle(status, stat)
  end function

  ! Fills a scalar or a contiguous array, of any type, from byte `offset` of the item `name` of a shard. `got` as in
  ! read: without it, fewer bytes than `data` has are an error.
  recursive subroutine read_shard_int64(self, shard, name, offset, data, got, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: shard
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: offset
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: there
    integer(c_int) :: status
    there = 0
    status = c_read_shard(self%handle, int(shard, c_int), to_c(name), offset, data, there, &
                          logical(.not. present(got), c_bool))
    call settle(status, stat)
    if (present(got)) got = there
  end subroutine

  recursive subroutine read_shard_int32(self, shard, name, offset, data, got, stat)
    class(mainstay_session), intent(in) :: self
    integer, intent(in) :: shard
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: offset
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got
    integer, intent(out), optional :: stat
    call read_shard_int64(self, shard, name, int(offset, c_int64_t), data, got, stat)
  end subroutine

  ! Saves `data` under `name`, with the protected regions if there are any, as the next revision. Returns when it is
  ! complete: durable on all ranks. Collective; the number of bytes may differ between ranks.
  recursive subroutine put(self, name, data, revision, stat)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), intent(in) :: data
    integer(c_int64_t), intent(out), optional :: revision
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: saved
    saved = 0
    call settle(c_put(self%handle, to_c(name), data, saved), stat)
    if (present(revision)) revision = saved
  end subroutine

  ! Fills `data` from its beginning with the bytes that this rank saved under `name`, in revision `number`, or in the
  ! newest that can be read whole on all ranks. `revision` is the number of that revision; 0: nothing was saved yet,
  ! and `data` is unchanged. `got`: the number of bytes read. Collective; nothing else changes.
  recursive subroutine get(self, name, data, got, revision, skipped, stat, number)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(*), dimension(..), intent(inout) :: data
    integer(c_int64_t), intent(out), optional :: got, revision, skipped
    integer, intent(out), optional :: stat
    integer(c_int64_t), intent(in), optional :: number
    type(mainstay_got) :: there
    call settle(c_get(self%handle, asked(number), to_c(name), data, there), stat)
    if (present(got)) got = there%bytes
    if (present(revision)) revision = there%revision
    if (present(skipped)) skipped = there%skipped
  end subroutine

  ! The number of bytes that `get` would fill in on this rank; 0 if nothing was saved yet. Collective.
  recursive integer(c_int64_t) function get_bytes(self, name, stat, number) result(bytes)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    integer(c_int64_t), intent(in), optional :: number
    bytes = 0
    call settle(c_get_bytes(self%handle, asked(number), to_c(name), bytes), stat)
  end function

  ! Whether this rank saved an item under `name` in the revision that `restore` tries first, with its shape, in
  ! Fortran's order, and its number of bytes. Collective.
  recursive logical function saved(self, name, shape, bytes, stat, number)
    class(mainstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), allocatable, intent(out), optional :: shape(:)
    integer(c_int64_t), intent(out), optional :: bytes
    integer, intent(out), optional :: stat
    integer(c_int64_t), intent(in), optional :: number
    integer(c_int64_t) :: numbers(32), there
    integer(c_int) :: dimensions, is_there
    dimensions = 0
    is_there = 0
    there = 0
    call settle(c_saved(self%handle, asked(number), to_c(name), dimensions, numbers, there, is_there), stat)
    saved = is_there /= 0
    if (present(shape)) shape = numbers(:dimensions)
    if (present(bytes)) bytes = there
  end function

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

end module

! All that `use mainstay` makes known.
module mainstay
  use mainstay_constants
  use mainstay_calls, only: mainstay_item, mainstay_error_message, mainstay_status_name
  ! Memory of the heap, for c_f_pointer: `mainstay_heap_calloc(count, bytes)` is the address of `count` elements of
  ! `bytes` bytes each, all zero, or c_null_ptr. It has the same address in each run that makes the same calls.
  ! session%protect_heap protects it. `call mainstay_heap_free(memory)` frees it: pass c_loc of the pointer.
  use mainstay_c, only: mainstay_options, mainstay_speculation, mainstay_record, &
    mainstay_heap_calloc => c_heap_calloc, mainstay_heap_free => c_heap_free
  use mainstay_sessions, only: mainstay_session, mainstay_set, mainstay_finalize, mainstay_layout, mainstay_step, &
    mainstay_where, mainstay_resize
end module
