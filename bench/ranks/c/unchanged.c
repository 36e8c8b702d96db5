#include "tables.h"

int tables_begin(double *tables, size_t bytes, int *step) {
  (void)tables, (void)bytes, (void)step;
  return 0;
}

void tables_pause(void) {}

void tables_end(void) {}
