/* silent STEPS: a serial program that computes without a single call, in all kinds of registers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 8 };

/* It keeps values in general, floating-point, vector and x87 registers across all steps. */
static double compute(uint64_t steps) {
  uint64_t hash = 1469598103934665603u;
  long double slow = 0.25L;
  double lanes[WIDTH], sum = 0;
  for (int i = 0; i < WIDTH; i++) lanes[i] = 0.1 + 0.1 * i;
  for (uint64_t step = 0; step < steps; step++) {
    for (int i = 0; i < WIDTH; i++) lanes[i] = 3.9 * lanes[i] * (1 - lanes[i]);
    slow = 3.7L * slow * (1 - slow);
    hash = (hash ^ step) * 1099511628211u;
    hash ^= hash >> 29;
  }
  for (int i = 0; i < WIDTH; i++) sum += lanes[i];
  return sum + (double)slow + (double)(hash >> 12);
}

int main(int count, char **arguments) {
  uint64_t steps = count > 1 ? strtoull(arguments[1], NULL, 10) : 0;
  printf("sum %.17g of 1 ranks\n", compute(steps));
  return 0;
}
