! c/shards.c in Fortran.
program shards
  use mpi
  use mainstay
  use checks
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer, target :: state(5000)
  real(real64), allocatable, target :: own(:)
  character(1000) :: space, mode
  integer :: rank, ranks, error
  type(mainstay_session) :: session

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, space)
  call get_command_argument(2, mode)
  call session%open(MPI_COMM_WORLD, space)
  select case (mode)
  case ("save")
    call save_own()
  case ("read")
    call divide()
  case default
    call put_buffer(mode == "again")
  end select
  call session%close()
  call MPI_Finalize(error)

contains

  function particles(of)
    integer, intent(in) :: of
    real(real64), allocatable :: particles(:)
    integer :: i
    allocate (particles(1000 * (of + 1)))
    do i = 1, size(particles)
      particles(i) = 1000000 * real(of, real64) + (i - 1)
    end do
  end function

  subroutine save_own()
    integer, target :: table(100)
    allocate (own, source=particles(rank))
    table = 7
    call session%protect("particles", own)
    call session%protect("table", table)
    call session%same_on_all_ranks("table")
    call session%any_number_of_ranks()
    call session%note("kind", "particles")
    call session%begin(100)
    call session%write("log", 0, ["r", "a", "n", "k"])
    call session%checkpoint()
    call session%wait()
  end subroutine

  subroutine divide()
    integer :: stat, shard, count
    integer, allocatable :: mine(:)
    integer, target :: table(100)
    integer(int64) :: revision
    type(mainstay_listed_revision), allocatable :: listed(:)
    character(:), allocatable :: note
    table = 0
    call session%protect("table", table)
    call must(session%shards() == 0, "no shards before a restore")
    call session%bring_shards([integer ::], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "nothing was restored")
    allocate (listed, source=session%revisions())
    call must(size(listed) == 1 .and. listed(1)%revision == 1, "the list")
    call session%revision_note(1, "kind", note)
    call must(note == "particles", "its note")
    call session%revision_note(1, "none", note)
    call must(.not. allocated(note), "no note")
    call session%choose(revision)
    call must(revision == 1 .and. all(table == 0), "the region is as it was")
    call session%restore()
    call must(all(table == 7), "what is the same on all ranks")
    call session%unprotect("table")
    count = session%shards()
    mine = [(shard, shard = rank, count - 1, ranks)]
    call session%bring_shards([count], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "has the shards 0 to")
    call session%bring_shards([-1], stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a negative number of a shard")
    call session%bring_shards(mine)
    do shard = 1, size(mine)
      call read_one(mine(shard))
    end do
  end subroutine

  subroutine read_one(shard)
    integer, intent(in) :: shard
    type(mainstay_item), allocatable :: items(:)
    real(real64), allocatable :: expected(:), some(:)
    real(real64) :: total
    character :: text(4)
    integer(int64) :: got
    integer :: stat
    allocate (expected, source=particles(shard))
    allocate (items, source=session%shard_items(shard))
    call must(size(items) == 3, "three items")
    call must(items(2)%name == "particles" .and. items(2)%kind == 0 .and. items(2)%type == MAINSTAY_F64, "the region")
    call must(all(items(2)%shape == [size(expected)]) .and. .not. allocated(items(2)%global_shape), "its shape")
    allocate (some(size(expected)))
    call session%read_shard(shard, "particles", 8, some(2:))
    call session%read_shard(shard, "particles", 0, some(1:1), got)
    call must(got == 8 .and. all(abs(some - expected) < 0.5_real64), "the particles")
    total = sum(some)
    call session%read_shard(shard, "log", 0_int64, text)
    call must(all(text == ["r", "a", "n", "k"]), "the stream")
    call session%read_shard(shard, "particles", 8, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "it ends before")
    call session%read_shard(shard, "none", 0, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "none")
    call session%read_shard(-1, "particles", 0, some, stat=stat)
    call refused(stat, MAINSTAY_INVALID_ARGUMENT, "a negative number of a shard")
    print "(a, i0, a, i0, a, i0)", "shard ", shard, ": ", size(some), " particles, sum ", nint(total, int64)
  end subroutine

  subroutine put_buffer(again)
    logical, intent(in) :: again
    integer :: extra(2), back(2)
    integer(int64) :: revision, saved
    extra = [rank, 7]
    state = merge(0, 7, again)
    call session%protect("state", state)
    call session%restore(revision)
    call must(again .eqv. revision /= 0, "what came back")
    if (.not. again) then
      call session%put("extra", extra)
      return
    end if
    call must(state(5000) == 7, "the region")
    call session%get("extra", back, revision=saved)
    call must(saved == revision .and. all(back == extra), "the buffer")
    call session%checkpoint()
  end subroutine
end program
