/* Functions that the files of point-to-point messages share. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_POINT_H
#define MAINSTAY_POINT_H

#include "internal.h"

enum send_mode { MODE_STANDARD, MODE_BUFFERED, MODE_SYNCHRONOUS, MODE_READY };

/* A call of a send or receive, with its handles looked up. */
struct call {
  struct comm *comm;
  struct datatype *type;
};

/* Looks up the handles of a call and checks its arguments. Returns MPI_SUCCESS or a class of errors. */
int check_send(struct call *call, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
int check_receive(struct call *call, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
int check_probe(struct comm **found, int peer, int tag, MPI_Comm comm);

/* requests.c */
/* Ends an active request that is done: stores its outcome, and sets the handle to NULL if it is not persistent. Returns
 * MPI_SUCCESS or a class of errors. */
int request_complete(struct request *request, MPI_Request *handle, MPI_Status *status);
/* Starts the operation of a request that was filled in. */
void send_start(struct request *request);
void receive_start(struct request *request);
/* Outcome of a received message; `room` is the size of its buffer. */
struct outcome message_outcome(struct comm *comm, const struct mainstay_message *message);
extern const struct outcome empty_outcome, no_peer_outcome;

/* buffered.c */
/* Sends a copy of the bytes. Returns MPI_ERR_BUFFER if the attached buffer has no room for them. */
int send_buffered(struct comm *comm, int peer, int tag, const void *data, MPI_Count count, const struct datatype *type);
void finish_buffered(void);

/* general.c */
bool general_done(const struct request *request);
int general_complete(struct request *request, MPI_Status *status);
int general_release(struct request *request);
int general_cancel(struct request *request);

/* messages.c */
void collective_activate(struct request *request);

#endif /* MAINSTAY_POINT_H */
