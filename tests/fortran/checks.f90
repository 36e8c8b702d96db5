! Conditions that must hold, and calls that must be refused.
module checks
  use mainstay
  implicit none

contains

  subroutine must(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (good) return
    print "(3a)", "WRONG: ", what, " (" // mainstay_error_message() // ")"
    error stop 1
  end subroutine

  ! The call before must have ended with `status`, and a message that has `words` in it.
  subroutine refused(stat, status, words)
    integer, intent(in) :: stat, status
    character(*), intent(in) :: words
    call must(stat == status, words // ": " // mainstay_status_name(stat))
    call must(index(mainstay_error_message(), words) > 0, words)
  end subroutine
end module
