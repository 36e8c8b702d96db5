/* Bodies on a line, in a linked list for each cell of it: they move from list to list, come and go. */
#include <mainstay.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 100

typedef struct body {
  double x, v;
  struct body *next;
} body;

/* ANCHOR: allocator */
/* The program's allocator, in one place. */
static void *get(size_t bytes) { return mainstay_heap_calloc(1, bytes); }
static void give_back(void *memory) { mainstay_heap_free(memory); }
/* ANCHOR_END: allocator */

static body **cells;
static int step;
static unsigned long long random_state = 1;

static void check(mainstay_status status) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "%s: %s\n", mainstay_status_name(status), mainstay_error_message());
  exit(1);
}

static double random_number(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

static void put(body *one) {
  int cell = (int)(one->x * CELLS);
  one->next = cells[cell];
  cells[cell] = one;
}

static void bear(void) {
  body *one = get(sizeof *one);
  one->x = random_number(), one->v = 0.01 * random_number();
  put(one);
}

static void advance(void) {
  body *all = NULL;
  for (int cell = 0; cell < CELLS; cell++)
    while (cells[cell]) {
      body *one = cells[cell];
      cells[cell] = one->next;
      one->next = all, all = one;
    }
  while (all) {
    body *one = all;
    all = one->next;
    one->x += one->v;
    if (one->x < 1)
      put(one);
    else
      give_back(one), bear(), bear();
  }
  step++;
}

int main(int argc, char **argv) {
  int steps = argc > 1 ? atoi(argv[1]) : 100, count = 0, due;
  double sum = 0;
  mainstay_session *session;
  mainstay_restored restored;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  options.every_steps = 10;

  /* ANCHOR: protect */
  check(mainstay_open_solo("space", &options, &session));
  check(mainstay_protect_globals(session)); /* the pointers, the step, the generator */
  check(mainstay_protect_heap(session));    /* the memory behind them */
  check(mainstay_restore(session, &restored));
  if (!restored.revision) { /* a restart skips this */
    cells = get(CELLS * sizeof *cells);
    for (int i = 0; i < 1000; i++) bear();
  }
  /* ANCHOR_END: protect */

  while (step < steps) {
    advance();
    check(mainstay_due(session, step, &due));
    if (due) check(mainstay_checkpoint(session, NULL));
  }
  for (int cell = 0; cell < CELLS; cell++)
    for (body *one = cells[cell]; one; one = one->next) count++, sum += one->x;
  printf("step %d: %d bodies, sum %.12f\n", step, count, sum);
  check(mainstay_close(session));
  return 0;
}
