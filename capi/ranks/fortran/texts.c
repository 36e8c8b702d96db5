/* Texts of Fortran: a length, and blanks at the end. Licence: MIT OR Apache-2.0. */
#include "fortran.h"

void *f_allocate(size_t bytes) {
  void *memory = calloc(1, bytes ? bytes : 1);
  if (!memory) end_job("no memory for %zu bytes", bytes);
  return memory;
}

char *f_text(const char *text, size_t length) {
  while (length && text[length - 1] == ' ') length--;
  char *copy = f_allocate(length + 1);
  return memcpy(copy, text, length);
}

char *f_text_stripped(const char *text, size_t length) {
  for (; length && *text == ' '; length--) text++;
  return f_text(text, length);
}

char *f_room(long bytes) { return f_allocate(bytes > 0 ? (size_t)bytes + 1 : 1); }

void f_text_out(char *to, size_t length, const char *from) {
  const size_t given = strlen(from), copied = given < length ? given : length;
  memcpy(to, from, copied);
  memset(to + copied, ' ', length - copied);
}
