/* A list that is longer after each step. How long it was when it was saved is asked before it is protected. */
#include <mainstay.h>
#include <stdio.h>
#include <stdlib.h>

static void must(mainstay_status status, const char *doing) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "growing: %s: %s: %s\n", doing, mainstay_status_name(status), mainstay_error_message());
  exit(1);
}

int main(void) {
  mainstay_session *session;
  uint64_t step = 0, count = 0;
  must(mainstay_open_solo("space-c", NULL, &session), "open");
  must(mainstay_protect(session, "step", &step, sizeof step), "protect the step");
  /* ANCHOR: saved */
  mainstay_item saved;
  must(mainstay_saved(session, MAINSTAY_NEWEST, "list", &saved), "ask what was saved");
  if (saved.name) count = saved.shape[0];
  double *list = malloc((count + 1) * sizeof *list);
  must(mainstay_protect_array(session, "list", list, MAINSTAY_F64, 1, &count), "protect the list");
  must(mainstay_restore(session, NULL), "restore");
  /* ANCHOR_END: saved */
  for (uint64_t stop = step + 3; step < stop;) {
    step++;
    /* ANCHOR: move */
    list = realloc(list, (count + step) * sizeof *list);
    for (uint64_t i = 0; i < step; i++) list[count++] = (double)step;
    must(mainstay_move(session, "list", list, 1, &count), "tell where the list is now");
    /* ANCHOR_END: move */
    must(mainstay_checkpoint(session, NULL), "checkpoint");
  }
  must(mainstay_close(session), "close");
  double sum = 0;
  for (uint64_t i = 0; i < count; i++) sum += list[i];
  printf("step %d: %d values, sum %.0f\n", (int)step, (int)count, sum);
  free(list);
  return 0;
}
