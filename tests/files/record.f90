! Writes a record of equal numbers again and again over the last one.
program record
  implicit none
  integer :: step, first, unit
  integer, allocatable :: numbers(:)
  character(len=20) :: word
  call get_command_argument(1, word)
  read (word, *) first
  allocate (numbers(400000))
  do step = first, huge(step) - 1
    numbers = step
    open (newunit=unit, file='restart', form='unformatted', action='write', status='replace')
    write (unit) numbers
    close (unit)
    print '(i0)', step
    flush (6)
  end do
end program
