! Every part of the module mainstay_reading, with the data that three ranks save.
!
!     reader SPACE
!
! Rank 0 reads beside the running job. All ranks read when the job is over.
program reader_test
  use mainstay
  use mainstay_reading
  use mpi
  use checks
  use, intrinsic :: iso_fortran_env
  implicit none

  integer, parameter :: wide = 4, high = 7
  type point
    real(real64) :: place(3)
    integer(int32) :: charge
  end type

  real(real64), allocatable, target :: plate(:, :)
  type(point), allocatable, target :: points(:)
  integer(int16), target :: own(5)
  character(6), target :: word
  character(1000) :: space
  integer :: rank, ranks, first, rows, error
  type(mainstay_session) :: session
  type(mainstay_options) :: options

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, space)
  first = high * rank / ranks
  rows = high * (rank + 1) / ranks - first
  allocate (plate(wide, rows), points(rows))
  options%keep = 2
  call session%open(MPI_COMM_WORLD, space, options)
  call session%protect_box("plate", plate, [wide, high], [0, first])
  call session%protect_box("points", points, [high], [first])
  call session%protect("own", own)
  call session%protect("word", word)
  call save(1)
  call save(2)
  if (rank == 0) call beside()
  call save(3)
  call session%close()
  call items()
  call bytes()
  call boxes()
  call fail()
  if (rank == 0) print "(a)", "done"
  call MPI_Finalize(error)

contains

  ! The value of a cell of the plate in a revision. Positions count from 1.
  elemental real(real64) function cell(revision, x, y)
    integer, intent(in) :: revision, x, y
    cell = 1000 * revision + 10 * y + x
  end function

  subroutine save(revision)
    integer, intent(in) :: revision
    integer(int64) :: number
    integer :: x, y
    plate = reshape([((cell(revision, x, first + y), x = 1, wide), y = 1, rows)], [wide, rows])
    points = [(point([1, 2, 3] * real(first + y, real64), revision), y = 1, rows)]
    own = [(int(100 * rank + 10 * revision + x, int16), x = 1, 5)]
    word = merge("first ", "other ", rank == 0)
    call session%begin(100)
    call session%write("pieces", 0, own(:rank + 1))
    call session%checkpoint(number)
    call must(number == revision, "the number")
    call session%wait()
  end subroutine

  subroutine beside()
    type(mainstay_reader) :: reader
    integer(int16) :: some(5)
    call reader%open(space, 1_int64)
    call must(reader%revision() == 1, "an older revision")
    call reader%read(2, "own", 0, some)
    call must(all(some == [211, 212, 213, 214, 215]), "what another rank has saved")
    call reader%close()
  end subroutine

  subroutine items()
    type(mainstay_reader) :: reader
    type(mainstay_item), allocatable :: all_of(:)
    integer :: shard, from, below
    call must(reader%revision() == 0 .and. reader%shards() == 0, "not open")
    call must(size(reader%items(0)) == 0, "nothing is there")
    call reader%open(space)
    call must(reader%revision() == 3 .and. reader%shards() == 3, "the newest")
    do shard = 0, 2
      from = high * shard / 3
      below = high * (shard + 1) / 3
      all_of = reader%items(shard)
      call must(size(all_of) == 5, "how many items")
      associate (pieces => all_of(1), plate => all_of(2), points => all_of(3), own => all_of(4), word => all_of(5))
        call must(plate%name == "plate" .and. len(plate%name) == 5 .and. plate%kind == 0, "a region")
        call must(plate%type == MAINSTAY_F64 .and. plate%bytes == 8 * wide * (below - from), "doubles")
        call must(same(plate%shape, [wide, below - from]), "the fastest dimension first")
        call must(same(plate%global_shape, [wide, high]) .and. same(plate%offset, [0, from]), "a box")
        call must(points%type == MAINSTAY_BYTES .and. same(points%shape, [32, below - from]), "elements without a name")
        call must(same(points%global_shape, [32, high]) .and. same(points%offset, [0, from]), "a box of them")
        call must(own%name == "own" .and. own%type == MAINSTAY_I16 .and. same(own%shape, [5]), "an array")
        call must(.not. allocated(own%global_shape) .and. .not. allocated(own%offset), "of one rank alone")
        call must(word%name == "word" .and. same(word%shape, [6]), "a text")
        call must(pieces%kind == 2 .and. pieces%bytes == 2 * (shard + 1), "a stream")
      end associate
    end do
    call must(size(reader%items(3)) == 0, "no such shard")
    call must(size(reader%items(-1)) == 0, "no shard at all")
    call reader%close()
    call must(reader%revision() == 0, "closed")
    call reader%close()
  end subroutine

  logical function same(numbers, expected)
    integer(int64), intent(in) :: numbers(:)
    integer, intent(in) :: expected(:)
    same = size(numbers) == size(expected)
    if (same) same = all(numbers == expected)
  end function

  subroutine bytes()
    type(mainstay_reader) :: reader
    integer(int16) :: some(5)
    integer(int64) :: got
    real(real64) :: one
    character(1) :: letters(6)
    integer :: stat
    call reader%open(space, 2_int64)
    call reader%read(1, "own", 2, some(:2))
    call must(all(some(:2) == [122, 123]), "from the middle")
    some = 0
    call reader%read(1, "own", 6_int64, some, got)
    call must(got == 4 .and. all(some == [124, 125, 0, 0, 0]), "to the end")
    call reader%read(1, "own", 6, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'item "own": it ends before')
    call reader%read(2, "pieces", 4, some, got)
    call must(got == 2 .and. some(1) == 223, "of a stream")
    call reader%read(2, "plate", 8, one)
    call must(abs(one - cell(2, 2, 5)) < 0.5, "a scalar")
    call reader%read(0, "word", 0, letters)
    call must(all(letters == ["f", "i", "r", "s", "t", " "]), "a text")
    call reader%close()
  end subroutine

  subroutine boxes()
    type(mainstay_reader) :: reader
    real(real64), allocatable :: whole(:, :)
    real(real64) :: part(2, 3), odd(3)
    type(point) :: of_three(4)
    integer :: x, y, stat
    call reader%open(space)
    allocate (whole(wide, high))
    call reader%read_box("plate", [0, 0], whole)
    call must(all(abs(whole - reshape([((cell(3, x, y), x = 1, wide), y = 1, high)], [wide, high])) < 0.5), "all of it")
    call reader%read_box("plate", [1_int64, 3_int64], part)
    call must(all(abs(part - whole(2:3, 4:6)) < 0.5), "a part, of two shards")
    call reader%read_box("points", [1], of_three)
    call must(all(of_three%charge == 3) .and. all(abs(of_three%place(2) - [4, 6, 8, 10]) < 0.5), "of three shards")
    call reader%read_box("plate", [0], part, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'box "plate": offset needs a number for each dimension')
    call reader%read_box("plate", [0, -1], part, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'box "plate": a negative number')
    call reader%read_box("plate", [3, 0], part, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'box of "plate"')
    call reader%read_box("plate", [0], odd, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'box of "plate"')
    call reader%read_box("plate", [0, 0], whole(::2, :), stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'box "plate": not contiguous')
    call reader%read_box("own", [0], odd, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "no shard of revision 3 has a box of this name")
    call reader%close()
  end subroutine

  subroutine fail()
    type(mainstay_reader) :: reader
    integer(int16) :: some(5)
    integer(int64) :: got
    integer :: stat
    call reader%open(trim(space) // "-nowhere", stat=stat)
    call refused(stat, MAINSTAY_NOT_A_SPACE, "-nowhere")
    call must(reader%revision() == 0, "not opened")
    call reader%open(space, 9_int64, stat)
    call refused(stat, MAINSTAY_REVISION_MISSING, "no revision 9")
    call reader%open(space, -2_int64, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a negative number of a revision")
    call reader%read(0, "own", 0, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "reader")
    call reader%open(space)
    call reader%open(space, 2_int64, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "is open already")
    call must(reader%revision() == 3, "still open")
    got = 7
    call reader%read(0, "nobody", 0, some, got, stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "pieces, plate, points, own, word")
    call must(got == 0, "nothing after an error")
    call reader%read(3, "own", 0, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "the shards 0 to 2")
    call reader%read(-1, "own", 0, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'item "own": a negative number of a shard')
    call reader%read(0, "own", -2, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'item "own": a negative offset')
    call reader%read(0, "own", 0, some(::2), stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'item "own": not contiguous')
    call reader%read(0, "word", 0, word, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, 'item "word": a text, or')
    call reader%close(stat)
    call must(stat == MAINSTAY_OK, "close")
  end subroutine
end program
