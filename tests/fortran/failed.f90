! The results of failing calls in an optimised program: empty, and not the content of the stack.
!
!     failed SPACE
program failed
  use, intrinsic :: iso_c_binding
  use checks
  use mainstay
  implicit none
  type(mainstay_session) :: closed, late
  type(mainstay_record) :: record
  type(mainstay_speculation) :: told
  type(c_ptr) :: memory
  integer, target, save :: step = 0
  integer :: stat
  integer(c_int64_t) :: revision, skipped, got
  character(200) :: space
  logical :: answer

  call dirty()
  answer = closed%due(3, stat)
  call must(.not. answer .and. stat /= 0, "due")
  call dirty()
  answer = closed%poll(stat)
  call must(.not. answer .and. stat /= 0, "poll")
  call dirty()
  call closed%checkpoint(revision, stat)
  call must(revision == 0 .and. stat /= 0, "checkpoint")
  call dirty()
  call closed%begin(-1, revision, stat)
  call must(revision == 0 .and. stat /= 0, "begin")
  call dirty()
  call closed%restore(revision, skipped, stat)
  call must(revision == 0 .and. skipped == 0 .and. stat /= 0, "restore")
  call dirty()
  call must(closed%shards(stat) == 0, "shards")
  call dirty()
  call must(closed%streams(stat) == 0, "streams")
  call dirty()
  call must(closed%stream_bytes("x", stat) == 0, "stream_bytes")
  call dirty()
  call must(closed%get_bytes("x", stat) == 0, "get_bytes")
  call dirty()
  call must(.not. closed%saved("x", stat=stat), "saved")
  call dirty()
  call closed%read("x", 0, step, got, stat)
  call must(got == 0 .and. stat /= 0, "read")
  call dirty()
  call closed%put("x", [1, 2], revision, stat)
  call must(revision == 0 .and. stat /= 0, "put")
  call dirty()
  call closed%last_record(record, stat)
  call must(record%revision == 0 .and. record%bytes == 0 .and. stat /= 0, "last_record")
  call dirty()
  call closed%speculation(told, stat)
  call must(told%dirty == 0 .and. told%is_off == 0 .and. stat /= 0, "speculation")
  call dirty()
  call closed%alloc("x", 5_c_size_t, memory, stat=stat)
  call must(.not. c_associated(memory) .and. stat /= 0, "alloc")

  ! The same with an open session, and a revision that waits for a restore.
  call get_command_argument(1, space)
  call late%open_solo(trim(space))
  call late%protect("step", step)
  call late%restore()
  call late%checkpoint()
  call late%close()
  call late%open_solo(trim(space))
  call late%protect("step", step)
  call dirty()
  answer = late%due(1, stat)
  call must(.not. answer .and. stat /= 0, "due before the restore")
  call dirty()
  call late%checkpoint(revision, stat)
  call must(revision == 0 .and. stat /= 0, "checkpoint before the restore")
  call late%close()
  print "(a)", "done"

contains

  ! Leaves numbers on the stack that no call may return.
  subroutine dirty()
    integer(c_int64_t), volatile :: numbers(500)
    numbers = 1234567
  end subroutine
end program
