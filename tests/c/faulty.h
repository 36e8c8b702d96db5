#ifndef FAULTY_H
#define FAULTY_H

#include <mainstay.h>

/* Prints the result of a call, and returns it. */
mainstay_status said(const char *call, mainstay_status status);

/* Objects in `session`, one of which does this wrong; with "nothing" none does. */
void faulty(mainstay_session *session, const char *how);

#endif
