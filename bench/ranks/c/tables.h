/* The calls by which the program `tables` saves its state: none (unchanged.c), or calls of Mainstay (by_hand.c). */
#ifndef TABLES_H
#define TABLES_H

#include <stddef.h>

/* Called before the tables are filled. Returns 1 if they were brought back. */
int tables_begin(double *tables, size_t bytes, int *step);
/* Called repeatedly while the program holds. */
void tables_pause(void);
void tables_end(void);

#endif
