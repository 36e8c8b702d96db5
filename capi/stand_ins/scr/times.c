/* SCR's functions on Mainstay: times to save and to end. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Whether the job should end, as rank 0 sees it. */
static int is_over(void) {
  const double now = (double)time(NULL), margin = number("SCR_HALT_SECONDS");
  char *halt = of_prefix("halt");
  int is = stand_in_file_bytes(halt) >= 0;
  free(halt);
  is |= margin > 0 && number("SCR_END_TIME") > 0 && now >= number("SCR_END_TIME") - margin;
  is |= number("SCR_EXIT_BEFORE") > 0 && now >= number("SCR_EXIT_BEFORE") - margin;
  return is || (number("SCR_EXIT_AFTER") > 0 && now >= number("SCR_EXIT_AFTER"));
}

/* Whether SCR's parameters say when a checkpoint is due. */
static int has_rule(void) {
  return parameter("SCR_CHECKPOINT_INTERVAL") || parameter("SCR_CHECKPOINT_SECONDS") ||
         parameter("SCR_CHECKPOINT_OVERHEAD");
}

/* Whether a checkpoint is due by the parameters, as rank 0 sees it. */
static int is_due(void) {
  const double waited = MPI_Wtime() - scr.saved, percent = 100;
  const double interval = number("SCR_CHECKPOINT_INTERVAL"), seconds = number("SCR_CHECKPOINT_SECONDS");
  const double overhead = number("SCR_CHECKPOINT_OVERHEAD");
  const double cost = scr.saved_count ? scr.cost / (double)scr.saved_count : 0;
  if (interval >= 1 && interval < (double)INT64_MAX && scr.asked % (uint64_t)interval == 0) return 1;
  if (seconds > 0 && waited >= seconds) return 1;
  return overhead > 0 && (!scr.saved_count || cost / (waited + cost) * percent < overhead);
}

int SCR_Need_checkpoint(int *flag) {
  const char *call = "SCR_Need_checkpoint";
  int due = 0, by_mainstay = 0;
  if (flag) *flag = 0;
  if (is_refused(call, IDLE)) return SCR_FAILURE;
  if (!flag) return fail(call, "flag is NULL");
  scr.asked++;
  scr.steps++;
  if (scr.rank == 0) due = is_over() || is_due();
  MPI_Bcast(&due, 1, MPI_INT, 0, scr.comm);
  if (!has_rule() && mainstay_due(scr.session, scr.steps, &by_mainstay) != MAINSTAY_OK) return failed(call);
  *flag = due || by_mainstay;
  return SCR_SUCCESS;
}

int SCR_Should_exit(int *flag) {
  int over = 0;
  if (is_refused("SCR_Should_exit", IDLE)) return SCR_FAILURE;
  if (!flag) return fail("SCR_Should_exit", "flag is NULL");
  if (scr.rank == 0) over = is_over();
  MPI_Bcast(&over, 1, MPI_INT, 0, scr.comm);
  *flag = over;
  return SCR_SUCCESS;
}
