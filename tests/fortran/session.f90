! Every part of the module mainstay, in one process, which has MPI nevertheless.
!
!     session SPACE OUTPUT
!
! Saves values of every type and rank, changes them, and restores them in a later session. Then it makes mistakes.
module followed
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), allocatable, target :: f64(:, :)
  real(real64), pointer :: view(:)
contains
  type(c_ptr) function where_view() bind(C)
    where_view = c_null_ptr
    if (associated(view)) where_view = c_loc(view)
  end function

  type(c_ptr) function where_f64() bind(C)
    where_f64 = c_loc(f64(1, 0))
  end function
end module

program session_test
  use followed
  use mainstay
  use mpi
  use checks
  use, intrinsic :: iso_fortran_env
  implicit none

  integer, parameter :: extended = selected_real_kind(18)
  type point
    real(real64) :: place(3)
    integer(int32) :: charge
  end type

  integer(int8), target :: i8
  integer(int16), target :: i16(2)
  integer(int32), target :: i32(2, 3)
  integer(int64), target :: i64(2, 3, 4), longs(2, 3, 4)
  real(real32), target :: f32
  real(extended), target :: f80(2)
  complex(real32), target :: c64
  complex(real64), target :: c128(3)
  logical, target :: flag
  logical(1), target :: flags(5)
  character(6), target :: words(2)
  type(point), target :: points(4)
  real(real64), target :: empty(0, 3), deep(1, 1, 1, 1, 1, 1, 1, 2)
  real(real64), allocatable, target :: never(:)
  real(real64), pointer :: nowhere(:, :) => null()
  character(1000) :: space, output
  integer :: error

  call MPI_Init(error)
  call get_command_argument(1, space)
  call get_command_argument(2, output)
  allocate (f64(0:4, -1:1))
  allocate (view(7))
  call save_all()
  call come_back()
  call buffers()
  call pieces()
  call boxes()
  call within()
  call following()
  call fail()
  print "(a)", "done"
  call MPI_Finalize(error)

contains

  subroutine fill(by)
    integer, intent(in) :: by
    integer :: i
    i8 = int(by, int8); i16 = int(by, int16); i32 = by; i32(2, 1) = 21 * by; i64 = by; longs = by; f32 = by / 2.0
    f64 = by; f64(4, 1) = by / 3.0_real64; f80 = by / 3.0_extended; c64 = cmplx(by, -by); c128 = cmplx(-by, by, real64)
    flag = by == 1; flags = by == 1; words = merge("first ", "second", by == 1)
    points = [(point([1, 2, 3] * real(by, real64), i * by), i = 1, 4)]
    deep = by; view = by
  end subroutine

  subroutine protect_all(session)
    type(mainstay_session), intent(in) :: session
    call session%protect("i8", i8)
    call session%protect("i16", i16)
    call session%protect("i32", i32)
    call session%protect("i64", i64)
    call session%protect("f32", f32)
    call session%protect("f64   ", f64)
    call session%protect("f80", f80)
    call session%protect("c64", c64)
    call session%protect("c128", c128)
    call session%protect("flag", flag)
    call session%protect("flags", flags)
    call session%protect("words", words)
    call session%protect("points", points)
    call session%protect("empty", empty)
    call session%protect("deep", deep)
    call session%protect("view", view)
    call session%protect("section", longs(:, :, 2:3))
  end subroutine

  subroutine save_all()
    type(mainstay_session) :: session
    type(mainstay_options) :: options
    type(mainstay_record) :: record
    integer(int64) :: revision
    integer :: unit
    logical :: due
    options%keep = 2
    options%stage = MAINSTAY_STAGE_POOL
    options%pool_bytes = 8 * 2**20
    options%every_steps = 5
    call session%open(MPI_COMM_WORLD, space, options)
    call fill(1)
    call protect_all(session)
    call session%protect_output(output)
    call session%restore(revision)
    call must(revision == 0, "nothing to restore")
    due = session%due(5)
    call must(due, "due")
    due = session%due(6_int64)
    call must(.not. due, "not due")
    call session%note("step", "5 ")
    open (newunit=unit, file=output, status="replace")
    write (unit, "(a)") "five"
    close (unit)
    call session%checkpoint(revision)
    call must(revision == 1, "the number")
    call session%wait()
    call must(session%poll(), "poll")
    call session%last_record(record)
    call must(record%revision == 1 .and. record%bytes > 0 .and. record%writes > 0, "the record")
    call must(record%communication_ns + record%buffer_wait_ns + record%copy_ns + record%other_ns &
      + record%resume_ns == record%perceived_ns .and. record%resume_ns > 0, "the phases")
    call must(session%is_open(), "open")
    call session%close()
    call must(.not. session%is_open(), "closed")
  end subroutine

  subroutine come_back()
    type(mainstay_session) :: session
    integer(int64) :: revision, skipped, bytes, step
    character(:), allocatable :: note
    integer :: unit, stat
    open (newunit=unit, file=output, position="append", status="old")
    write (unit, "(a)") "six, which is not saved"
    close (unit)
    call fill(-2)
    call session%open_solo(space)
    call protect_all(session)
    call session%protect_output(output)
    call session%checkpoint(stat=stat)
    call refused(stat, MAINSTAY_NOT_RESTORED, "push out revision 1")
    call session%restore(stat=stat, number=9_int64)
    call refused(stat, MAINSTAY_REVISION_MISSING, "revision 9 has not been written yet")
    call session%restore(revision, skipped, number=1_int64, step=step)
    call must(revision == 1 .and. skipped == 0 .and. step == 6, "restored")
    call must(session%report() == "", "the report")
    call must(i8 == 1 .and. all(i16 == 1) .and. i32(2, 1) == 21 .and. i32(2, 3) == 1 .and. all(i64 == 1) &
      .and. all(longs(:, :, 2:3) == 1), "integers")
    call must(f32 == 0.5 .and. f64(4, 1) == 1 / 3.0_real64 .and. f64(0, -1) == 1, "reals")
    call must(all(f80 == 1 / 3.0_extended) .and. all(deep == 1) .and. all(view == 1), "more reals")
    call must(c64 == (1, -1) .and. all(c128 == (-1, 1)), "complex")
    call must(flag .and. all(flags) .and. all(words == "first ") .and. points(4)%charge == 4, "the rest")
    call session%restored_note("step", note)
    call must(note == "5 " .and. len(note) == 2, "the note")
    call session%restored_note("stop", note)
    call must(.not. allocated(note), "no note")
    inquire (file=output, size=bytes)
    call must(bytes == 5, "the output is cut back")
    call session%close()
  end subroutine

  subroutine assumed_size(session, a, stat)
    type(mainstay_session), intent(in) :: session
    real(real64), target, intent(inout) :: a(3, *)
    integer, intent(out) :: stat
    call session%protect("assumed", a, stat)
  end subroutine

  ! Every way to write a piece and to read it back.
  subroutine pieces()
    type(mainstay_session) :: session
    integer(int64) :: revision, got
    integer(int64) :: bytes, lengths
    integer :: stat, i
    character(2) :: letters(2)
    character(:), allocatable :: stream
    call fill(1)
    call session%open_solo(trim(space) // "-p")
    call session%write("all", 0, f32, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "begin")
    call session%begin(-1, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "negative number")
    call session%abandon(stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "no checkpoint has begun")
    call session%begin(1000)
    call session%write("given-up", 0, f32)
    call session%abandon()
    call session%begin(1000, revision)
    call must(revision == 2, "the number to be")
    call session%begin(1000_int64, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "was not finished, and is given up")
    call session%begin(1000, revision)
    call must(revision == 3, "the one behind it")
    call session%write("all", 0, f64)
    call session%write("all", 120_int64, i32)
    call session%write("all", 144, [words(1)(1:2), "xt"])
    call session%write("all", 144, "text", stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'stream "all": a text, or')
    call session%write("all", 144, words(1)(1:4), stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'stream "all": a text, or')
    call session%write("all", 148, [1.5_real64, 2.5_real64])
    call session%write("all  ", 164, [i8])
    call session%write("points", 0, points)
    call session%write("empty", 0, empty)
    call session%write("all", -1, f32, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"all": a negative offset')
    call session%write("gaps", 0, f64(::2, :), stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'stream "gaps": not contiguous')
    call session%write("never", 0, never, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'stream "never": not allocated')
    call session%checkpoint(revision)
    call must(revision == 3, "the number of the pieces")
    call session%close()

    call fill(-2)
    view = 0
    call session%open_solo(trim(space) // "-p")
    call session%restore(revision)
    call must(revision == 3, "pieces restored")
    call must(session%stream_bytes("all") == 165, "the length")
    call must(session%stream_bytes("empty") == 0, "no length")
    lengths = 0
    do i = 1, session%streams()
      call session%stream(i, stream, bytes)
      call must(bytes == session%stream_bytes(stream), "the length of " // stream)
      lengths = lengths + bytes
    end do
    call must(session%streams() > 2 .and. lengths > 165, "the list of streams")
    call session%stream(0, stream, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "none has this number")
    call session%read("all", 0, f64)
    call must(f64(4, 1) == 1 / 3.0_real64 .and. f64(0, -1) == 1, "f64 from the stream")
    call session%read("all", 120, i32, got)
    call must(got == 24 .and. i32(2, 1) == 21, "i32 from the stream")
    call session%read("all", 144, letters)
    call must(all(letters == ["fi", "xt"]), "text from the stream")
    call session%read("all", 148_int64, view(3:4))
    call must(all(view == [0.0, 0.0, 1.5, 2.5, 0.0, 0.0, 0.0]), "a section from the stream")
    call session%read("points", 0, points)
    call must(points(4)%charge == 4 .and. points(3)%place(2) == 2, "points from the stream")
    call session%read("all", 160, i64, got)
    call must(got == 5, "the end")
    call session%read("all", 160, i64, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'stream "all": it ends before')
    call session%read("all", -5, i64, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"all": a negative offset')
    call session%read("nobody", 0, f32, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "all")
    revision = session%stream_bytes("nobody", stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "all")
    call session%read("gaps", 0, f64(::2, :), stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'stream "gaps": not contiguous')
    call session%close()
  end subroutine

  ! Buffers that are put and got as a whole.
  subroutine buffers()
    type(mainstay_session) :: session
    integer(int64) :: revision, got
    integer :: stat
    call fill(1)
    call session%open_solo(trim(space) // "-buffers")
    call must(session%get_bytes("buffer") == 0, "nothing saved yet")
    call session%get("buffer", f64, got, revision)
    call must(revision == 0 .and. got == 0, "nothing to get")
    call session%put("buffer", f64, revision)
    call must(revision == 1, "the number of what was put")
    call session%put("buffer", i32)
    call session%put("buffer", f64(::2, :), stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'buffer "buffer": not contiguous')
    call fill(-2)
    call must(session%get_bytes("buffer") == 24, "how many bytes the newest has")
    call session%get("buffer", i64, got, revision)
    call must(got == 24 .and. revision == 2 .and. i64(1, 1, 1) == transfer([1, 21], 1_int64), "the newest")
    call session%get("nobody", i64, stat=stat)
    call refused(stat, MAINSTAY_REGION_MISSING, "nobody")
    call session%get("buffer", f32, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "room for 4 bytes")
    call session%get("buffer", f64(::2, :), stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'buffer "buffer": not contiguous')
    call session%close()
  end subroutine

  ! Regions that follow variables, and regions that are moved.
  subroutine following()
    type(mainstay_session) :: session
    real(real64), pointer :: kept(:)
    real(real64), allocatable, target :: list(:), wider(:, :), other(:, :)
    integer :: stat
    kept => view
    view = 1
    call session%open_solo(trim(space) // "-follow")
    call session%protect("view", view)
    call session%protect("section", f64(1:3, 0:))
    call session%follow("nobody", where_view, stat)
    call refused(stat, MAINSTAY_REGION_MISSING, "not protected")
    call session%follow("section", where_view, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "does not point to the region")
    call session%follow("view", where_view)
    call session%follow("section", where_f64)
    allocate (other(0:4, -1:1))
    allocate (view(7))
    view = 2
    other = 7
    call move_alloc(f64, wider)
    call move_alloc(other, f64)
    call session%checkpoint()
    view = 0
    f64 = 0
    wider = -1
    call session%restore()
    call must(all(view == 2) .and. all(kept == 1), "what the pointer points to")
    call must(all(f64(1:3, 0:) == 7) .and. sum(f64) == 6 * 7 .and. all(wider == -1), "what lies in the allocatable")
    deallocate (view)
    nullify (view)
    call session%checkpoint(stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"view": a null pointer')
    call session%restore(stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"view": a null pointer')
    view => kept
    call session%checkpoint()

    list = [1.0_real64, 2.0_real64]
    call session%protect("list", list)
    list = [3.0_real64, 4.0_real64, 5.0_real64]
    call session%move("list", list)
    call session%move("nobody", list, stat)
    call refused(stat, MAINSTAY_REGION_MISSING, "not protected")
    call session%move("list", never, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "not allocated")
    call session%move("list", i32, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "protected as f64 3")
    call session%checkpoint()
    list = 0
    call session%restore()
    call must(all(list == [3, 4, 5]), "the list")
    call session%move("list", wider(1:2, -1:0))
    wider = 8
    call session%checkpoint()
    wider = 0
    call session%restore()
    call must(sum(wider) == 4 * 8, "a section of another array")
    ! With one rank this is a close.
    call session%leave()
    call session%leave(stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "session")
  end subroutine

  subroutine boxes()
    type(mainstay_session) :: session
    integer :: stat
    call session%open_solo(trim(space) // "-b")
    i32 = reshape([1, 2, 3, 4, 5, 6], [2, 3])
    call session%protect_box("i32", i32, [5, 4], [3, 1])
    call session%protect_box("points", points, [9_int64], [5_int64])
    call session%protect_box("odd", f64, [5, 4], [1, 1], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "5 cells from 1 on along side 1")
    call session%protect_box("odd", f64, [5], [1], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a number for each dimension")
    call session%protect_box("odd", f64, [5, 4], [0], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a number for each dimension")
    call session%protect_box("odd", f64, [5, 4], [-1, 0], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a negative number")
    call session%checkpoint()
    call session%close()
    ! Another box of the same array: its first row is the second row of the saved box.
    i16 = 0
    i32 = 0
    call session%open_solo(trim(space) // "-b")
    call session%protect_box("i32", i32(2:2, 1), [5, 4], [4, 2], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a number for each dimension")
    call session%protect_box("i32", i32(:, 1:2), [5, 4], [3, 2])
    call session%protect_box("points", points, [9], [5])
    call session%restore()
    call must(all(i32(:, 1:2) == reshape([3, 4, 5, 6], [2, 2])), "the cells of another box")
    call session%close()
  end subroutine

  ! Sections of arrays with ghost cells or other values between them: only the sections are saved and restored.
  subroutine within()
    type(mainstay_session) :: session
    integer(int64) :: cell(2, 3, 4)
    integer(int64), allocatable :: none(:, :, :)
    integer :: i
    allocate(none(0:3, 1:0, 1:3)) ! of a rank that has no part
    cell = reshape([(int(i, int64), i = 1, size(cell))], shape(cell))
    i64 = cell
    f64 = 1
    call session%open_solo(trim(space) // "-w")
    call session%protect("inside", i64(:, 2:3, 2:3))
    call session%protect_box("f64", f64(1:3, 0:1), [9, 9], [6, 7])
    call session%protect_box("other", f64(0:0, ::2), [1, 2], [0, 0])
    call session%protect_box("none", none(1:2, :, :), [2, 5, 3], [0, 0, 0])
    call session%checkpoint()
    call session%close()
    i64 = -1
    f64 = -1
    call session%open_solo(trim(space) // "-w")
    call session%protect("inside", i64(:, 1:2, 3:4))
    call session%protect_box("f64", f64(1:3, 0:1), [9, 9], [6, 7])
    call session%protect_box("other", f64(0:0, ::2), [1, 2], [0, 0])
    call session%protect_box("none", none(1:2, :, :), [2, 5, 3], [0, 0, 0])
    call session%restore()
    call session%close()
    call must(all(i64(:, 1:2, 3:4) == cell(:, 2:3, 2:3)) .and. count(i64 == -1) == 16, "the inside")
    call must(all(f64(1:3, 0:1) == 1) .and. all(f64(0, [-1, 1]) == 1) .and. count(f64 == 1) == 8, "sections")
  end subroutine

  subroutine fail()
    type(mainstay_session) :: session, second
    type(mainstay_options) :: options
    integer :: stat
    call session%checkpoint(stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "session")
    call session%open_solo(trim(space) // "-f", stat=stat)
    call must(stat == MAINSTAY_OK, "open")
    ! Its handle would be lost.
    call session%open_solo(trim(space) // "-other", stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "is open already")
    call session%open(MPI_COMM_WORLD, trim(space) // "-other", stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "is open already")
    call must(session%is_open(), "still open")
    call second%open_solo(trim(space) // "-f", stat=stat)
    call refused(stat, MAINSTAY_IN_USE, trim(space) // "-f")
    call mainstay_set(options, "chunk_bytes", "1", stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "chunk_bytes")
    call mainstay_set(options, "chunk_bytes", "8 KiB", stat)
    call must(stat == MAINSTAY_OK, "set")
    options%pool_bytes = 4096
    call second%open(MPI_COMM_WORLD, trim(space) // "-g", options, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "pool_bytes")

    call session%protect("gaps", f64(::2, :), stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"gaps": neither contiguous')
    call session%protect("back", i64(:, 3:1:-1, :), stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"back": neither contiguous')
    call session%protect("never", never, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"never": not allocated')
    call session%protect("nowhere", nowhere, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"nowhere": not allocated')
    call assumed_size(session, f64, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, '"assumed": an assumed-size array')
    call session%protect("a b", i8, stat)
    call refused(stat, MAINSTAY_INVALID_NAME, "a b")
    call session%protect("deep", deep, stat)
    call must(stat == MAINSTAY_OK, "deep")
    call session%protect("deep", deep, stat)
    call refused(stat, MAINSTAY_DUPLICATE_NAME, "deep")
    call session%unprotect("nobody", stat)
    call refused(stat, MAINSTAY_REGION_MISSING, "nobody")
    call session%checkpoint()
    call session%unprotect_all()
    call session%protect("deep", view, stat)
    call session%restore(stat=stat)
    call refused(stat, MAINSTAY_REGION_CHANGED, "deep")
    call session%close()
    ! The last case: without stat, an error ends the job.
    call get_command_argument(3, space)
    if (space /= "") call session%checkpoint()
  end subroutine
end program
