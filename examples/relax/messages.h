/* All messages of the program. */
#include <mainstay_mpi.h>
#include <setjmp.h>

/* Where a message goes that fails: out of the step, however deep it was sent. */
extern jmp_buf messages_failed;

/* Makes the program's own communicator, at the beginning and after each failure. */
int messages_begin(mainstay_session *session, int *rank, int *ranks);
void messages_end(void);
/* Fills the ghosts at both ends of `cells`, an array of `size` cells between two ghosts. */
void messages_exchange(double *cells, int size);
/* The largest of all ranks' values. */
double messages_max(double value);
