/* Checks of the parts of MPI, each against a plain computation. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, ranks, next, before;
extern const char *folder;

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)

void check(int holds, const char *condition, const char *file, int line);

/* A number that depends on all three. */
int value(int a, int b, int c);

void point(void);
void waits(void);
void probes(void);
void collectives(void);
void vectors(void);
void communicators(void);
void topologies(void);
void types(void);
void packs(void);
void operations(void);
void general(void);
void nonblocking(void);
void files(void);
