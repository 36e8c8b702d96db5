/* Messages between two ranks, and requests. Included by mpi.h. Licence: MIT OR Apache-2.0. */
MAINSTAY_MPI(int, Bsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Bsend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Bsend_init, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Bsend_init_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm
             comm, MPI_Request *request));
MAINSTAY_MPI(int, Buffer_attach, (void *buffer, int size));
MAINSTAY_MPI(int, Buffer_attach_c, (void *buffer, MPI_Count size));
MAINSTAY_MPI(int, Buffer_detach, (void *buffer_addr, int *size));
MAINSTAY_MPI(int, Buffer_detach_c, (void *buffer_addr, MPI_Count *size));
MAINSTAY_MPI(int, Buffer_flush, (void));
MAINSTAY_MPI(int, Buffer_iflush, (MPI_Request *request));
MAINSTAY_MPI(int, Cancel, (MPI_Request *request));
MAINSTAY_MPI(int, Grequest_complete, (MPI_Request request));
MAINSTAY_MPI(int, Grequest_start, (MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
             MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request));
MAINSTAY_MPI(int, Ibsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Ibsend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status));
MAINSTAY_MPI(int, Imrecv, (void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request));
MAINSTAY_MPI(int, Imrecv_c, (void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Request
             *request));
MAINSTAY_MPI(int, Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status));
MAINSTAY_MPI(int, Irecv, (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request
             *request));
MAINSTAY_MPI(int, Irecv_c, (void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Irsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Irsend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Isend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Isend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Isendrecv, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void
             *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request
             *request));
MAINSTAY_MPI(int, Isendrecv_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Isendrecv_replace, (void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source,
             int recvtag, MPI_Comm comm, MPI_Request *request));
MAINSTAY_MPI(int, Isendrecv_replace_c, (void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int
             source, int recvtag, MPI_Comm comm, MPI_Request *request));
MAINSTAY_MPI(int, Issend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Issend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(MPI_Fint, Message_c2f, (MPI_Message message));
MAINSTAY_MPI(MPI_Message, Message_f2c, (MPI_Fint message));
MAINSTAY_MPI(MPI_Message, Message_fromint, (int message));
MAINSTAY_MPI(int, Message_toint, (MPI_Message message));
MAINSTAY_MPI(int, Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status));
MAINSTAY_MPI(int, Mrecv, (void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status));
MAINSTAY_MPI(int, Mrecv_c, (void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Status
             *status));
MAINSTAY_MPI(int, Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status));
MAINSTAY_MPI(int, Recv, (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status
             *status));
MAINSTAY_MPI(int, Recv_c, (void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status *status));
MAINSTAY_MPI(int, Recv_init, (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Recv_init_c, (void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(MPI_Fint, Request_c2f, (MPI_Request request));
MAINSTAY_MPI(MPI_Request, Request_f2c, (MPI_Fint request));
MAINSTAY_MPI(int, Request_free, (MPI_Request *request));
MAINSTAY_MPI(MPI_Request, Request_fromint, (int request));
MAINSTAY_MPI(int, Request_get_status, (MPI_Request request, int *flag, MPI_Status *status));
MAINSTAY_MPI(int, Request_get_status_all, (int count, const MPI_Request array_of_requests[], int *flag, MPI_Status
             *array_of_statuses));
MAINSTAY_MPI(int, Request_get_status_any, (int count, const MPI_Request array_of_requests[], int *indx, int *flag,
             MPI_Status *status));
MAINSTAY_MPI(int, Request_get_status_some, (int incount, const MPI_Request array_of_requests[], int *outcount, int
             array_of_indices[], MPI_Status *array_of_statuses));
MAINSTAY_MPI(int, Request_toint, (MPI_Request request));
MAINSTAY_MPI(int, Rsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Rsend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Rsend_init, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Rsend_init_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm
             comm, MPI_Request *request));
MAINSTAY_MPI(int, Send, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Send_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Send_init, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Send_init_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm
             comm, MPI_Request *request));
MAINSTAY_MPI(int, Sendrecv, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void
             *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status
             *status));
MAINSTAY_MPI(int, Sendrecv_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
             MPI_Status *status));
MAINSTAY_MPI(int, Sendrecv_replace, (void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int
             recvtag, MPI_Comm comm, MPI_Status *status));
MAINSTAY_MPI(int, Sendrecv_replace_c, (void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int
             source, int recvtag, MPI_Comm comm, MPI_Status *status));
MAINSTAY_MPI(int, Ssend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Ssend_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));
MAINSTAY_MPI(int, Ssend_init, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             MPI_Request *request));
MAINSTAY_MPI(int, Ssend_init_c, (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm
             comm, MPI_Request *request));
MAINSTAY_MPI(int, Start, (MPI_Request *request));
MAINSTAY_MPI(int, Startall, (int count, MPI_Request array_of_requests[]));
MAINSTAY_MPI(int, Test, (MPI_Request *request, int *flag, MPI_Status *status));
MAINSTAY_MPI(int, Test_cancelled, (const MPI_Status *status, int *flag));
MAINSTAY_MPI(int, Testall, (int count, MPI_Request array_of_requests[], int *flag, MPI_Status *array_of_statuses));
MAINSTAY_MPI(int, Testany, (int count, MPI_Request array_of_requests[], int *indx, int *flag, MPI_Status *status));
MAINSTAY_MPI(int, Testsome, (int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
             MPI_Status *array_of_statuses));
MAINSTAY_MPI(int, Wait, (MPI_Request *request, MPI_Status *status));
MAINSTAY_MPI(int, Waitall, (int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses));
MAINSTAY_MPI(int, Waitany, (int count, MPI_Request array_of_requests[], int *indx, MPI_Status *status));
MAINSTAY_MPI(int, Waitsome, (int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
             MPI_Status *array_of_statuses));
