/* Functions that a rank in a slot cannot have: a call ends the job with advice. Included by mpi.h. Licence: MIT OR Apache-2.0. */
MAINSTAY_MPI(int, Abi_set_fortran_booleans, (int logical_size, void *logical_true, void *logical_false));
MAINSTAY_MPI(int, Abi_set_fortran_info, (MPI_Info info));
MAINSTAY_MPI(int, Accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win));
MAINSTAY_MPI(int, Accumulate_c, (const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int
             target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win
             win));
MAINSTAY_MPI(int, Close_port, (const char *port_name));
MAINSTAY_MPI(int, Comm_accept, (const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_attach_buffer, (MPI_Comm comm, void *buffer, int size));
MAINSTAY_MPI(int, Comm_attach_buffer_c, (MPI_Comm comm, void *buffer, MPI_Count size));
MAINSTAY_MPI(int, Comm_connect, (const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_create_from_group, (MPI_Group group, const char *stringtag, MPI_Info info, MPI_Errhandler
             errhandler, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_detach_buffer, (MPI_Comm comm, void *buffer_addr, int *size));
MAINSTAY_MPI(int, Comm_detach_buffer_c, (MPI_Comm comm, void *buffer_addr, MPI_Count *size));
MAINSTAY_MPI(int, Comm_flush_buffer, (MPI_Comm comm));
MAINSTAY_MPI(int, Comm_iflush_buffer, (MPI_Comm comm, MPI_Request *request));
MAINSTAY_MPI(int, Comm_join, (int fd, MPI_Comm *intercomm));
MAINSTAY_MPI(int, Comm_spawn, (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
             MPI_Comm *intercomm, int array_of_errcodes[]));
MAINSTAY_MPI(int, Comm_spawn_multiple, (int count, char *array_of_commands[], char **array_of_argv[], const int
             array_of_maxprocs[], const MPI_Info array_of_info[], int root, MPI_Comm comm, MPI_Comm *intercomm, int
             array_of_errcodes[]));
MAINSTAY_MPI(int, Compare_and_swap, (const void *origin_addr, const void *compare_addr, void *result_addr, MPI_Datatype
             datatype, int target_rank, MPI_Aint target_disp, MPI_Win win));
MAINSTAY_MPI(int, Fetch_and_op, (const void *origin_addr, void *result_addr, MPI_Datatype datatype, int target_rank,
             MPI_Aint target_disp, MPI_Op op, MPI_Win win));
MAINSTAY_MPI(int, File_get_position_shared, (MPI_File fh, MPI_Offset *offset));
MAINSTAY_MPI(int, File_iread_shared, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iread_shared_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Request
             *request));
MAINSTAY_MPI(int, File_iwrite_shared, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request
             *request));
MAINSTAY_MPI(int, File_iwrite_shared_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype,
             MPI_Request *request));
MAINSTAY_MPI(int, File_read_ordered, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_read_ordered_begin, (MPI_File fh, void *buf, int count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_read_ordered_begin_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_read_ordered_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_read_ordered_end, (MPI_File fh, void *buf, MPI_Status *status));
MAINSTAY_MPI(int, File_read_shared, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_read_shared_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_seek_shared, (MPI_File fh, MPI_Offset offset, int whence));
MAINSTAY_MPI(int, File_write_ordered, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_write_ordered_begin, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_write_ordered_begin_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_write_ordered_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype,
             MPI_Status *status));
MAINSTAY_MPI(int, File_write_ordered_end, (MPI_File fh, const void *buf, MPI_Status *status));
MAINSTAY_MPI(int, File_write_shared, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_write_shared_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, Get, (void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint
             target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win));
MAINSTAY_MPI(int, Get_accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, void
             *result_addr, int result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp, int
             target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win));
MAINSTAY_MPI(int, Get_accumulate_c, (const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, void
             *result_addr, MPI_Count result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
             MPI_Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win));
MAINSTAY_MPI(int, Get_c, (void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win));
MAINSTAY_MPI(int, Group_from_session_pset, (MPI_Session session, const char *pset_name, MPI_Group *newgroup));
MAINSTAY_MPI(int, Intercomm_create_from_groups, (MPI_Group local_group, int local_leader, MPI_Group remote_group, int
             remote_leader, const char *stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm *newintercomm));
MAINSTAY_MPI(int, Lookup_name, (const char *service_name, MPI_Info info, char *port_name));
MAINSTAY_MPI(int, Open_port, (MPI_Info info, char *port_name));
MAINSTAY_MPI(int, Parrived, (MPI_Request request, int partition, int *flag));
MAINSTAY_MPI(int, Pready, (int partition, MPI_Request request));
MAINSTAY_MPI(int, Pready_list, (int length, const int array_of_partitions[], MPI_Request request));
MAINSTAY_MPI(int, Pready_range, (int partition_low, int partition_high, MPI_Request request));
MAINSTAY_MPI(int, Precv_init, (void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
             MPI_Comm comm, MPI_Info info, MPI_Request *request));
MAINSTAY_MPI(int, Psend_init, (const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int
             tag, MPI_Comm comm, MPI_Info info, MPI_Request *request));
MAINSTAY_MPI(int, Publish_name, (const char *service_name, MPI_Info info, const char *port_name));
MAINSTAY_MPI(int, Put, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win));
MAINSTAY_MPI(int, Put_c, (const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int
             target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win));
MAINSTAY_MPI(int, Raccumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int
             target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
             MPI_Request *request));
MAINSTAY_MPI(int, Raccumulate_c, (const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int
             target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win
             win, MPI_Request *request));
MAINSTAY_MPI(int, Register_datarep, (const char *datarep, MPI_Datarep_conversion_function *read_conversion_fn,
             MPI_Datarep_conversion_function *write_conversion_fn, MPI_Datarep_extent_function *dtype_file_extent_fn,
             void *extra_state));
MAINSTAY_MPI(int, Register_datarep_c, (const char *datarep, MPI_Datarep_conversion_function_c *read_conversion_fn,
             MPI_Datarep_conversion_function_c *write_conversion_fn, MPI_Datarep_extent_function *dtype_file_extent_fn,
             void *extra_state));
MAINSTAY_MPI(int, Rget, (void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint
             target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request));
MAINSTAY_MPI(int, Rget_accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, void
             *result_addr, int result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp, int
             target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request *request));
MAINSTAY_MPI(int, Rget_accumulate_c, (const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
             void *result_addr, MPI_Count result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint
             target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request
             *request));
MAINSTAY_MPI(int, Rget_c, (void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request
             *request));
MAINSTAY_MPI(int, Rput, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request));
MAINSTAY_MPI(int, Rput_c, (const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int
             target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,
             MPI_Request *request));
MAINSTAY_MPI(int, Session_attach_buffer, (MPI_Session session, void *buffer, int size));
MAINSTAY_MPI(int, Session_attach_buffer_c, (MPI_Session session, void *buffer, MPI_Count size));
MAINSTAY_MPI(int, Session_call_errhandler, (MPI_Session session, int errorcode));
MAINSTAY_MPI(int, Session_create_errhandler, (MPI_Session_errhandler_function *session_errhandler_fn, MPI_Errhandler
             *errhandler));
MAINSTAY_MPI(int, Session_detach_buffer, (MPI_Session session, void *buffer_addr, int *size));
MAINSTAY_MPI(int, Session_detach_buffer_c, (MPI_Session session, void *buffer_addr, MPI_Count *size));
MAINSTAY_MPI(int, Session_finalize, (MPI_Session *session));
MAINSTAY_MPI(int, Session_flush_buffer, (MPI_Session session));
MAINSTAY_MPI(int, Session_get_errhandler, (MPI_Session session, MPI_Errhandler *errhandler));
MAINSTAY_MPI(int, Session_get_info, (MPI_Session session, MPI_Info *info_used));
MAINSTAY_MPI(int, Session_get_nth_pset, (MPI_Session session, MPI_Info info, int n, int *pset_len, char *pset_name));
MAINSTAY_MPI(int, Session_get_num_psets, (MPI_Session session, MPI_Info info, int *npset_names));
MAINSTAY_MPI(int, Session_get_pset_info, (MPI_Session session, const char *pset_name, MPI_Info *info));
MAINSTAY_MPI(int, Session_iflush_buffer, (MPI_Session session, MPI_Request *request));
MAINSTAY_MPI(int, Session_init, (MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session));
MAINSTAY_MPI(int, Session_set_errhandler, (MPI_Session session, MPI_Errhandler errhandler));
MAINSTAY_MPI(int, Unpublish_name, (const char *service_name, MPI_Info info, const char *port_name));
MAINSTAY_MPI(int, Win_allocate, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win
             *win));
MAINSTAY_MPI(int, Win_allocate_c, (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,
             MPI_Win *win));
MAINSTAY_MPI(int, Win_allocate_shared, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,
             MPI_Win *win));
MAINSTAY_MPI(int, Win_allocate_shared_c, (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void
             *baseptr, MPI_Win *win));
MAINSTAY_MPI(int, Win_attach, (MPI_Win win, void *base, MPI_Aint size));
MAINSTAY_MPI(int, Win_call_errhandler, (MPI_Win win, int errorcode));
MAINSTAY_MPI(int, Win_complete, (MPI_Win win));
MAINSTAY_MPI(int, Win_create, (void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win));
MAINSTAY_MPI(int, Win_create_c, (void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win
             *win));
MAINSTAY_MPI(int, Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win));
MAINSTAY_MPI(int, Win_create_errhandler, (MPI_Win_errhandler_function *win_errhandler_fn, MPI_Errhandler *errhandler));
MAINSTAY_MPI(int, Win_create_keyval, (MPI_Win_copy_attr_function *win_copy_attr_fn, MPI_Win_delete_attr_function
             *win_delete_attr_fn, int *win_keyval, void *extra_state));
MAINSTAY_MPI(int, Win_delete_attr, (MPI_Win win, int win_keyval));
MAINSTAY_MPI(int, Win_detach, (MPI_Win win, const void *base));
MAINSTAY_MPI(int, Win_fence, (int assert, MPI_Win win));
MAINSTAY_MPI(int, Win_flush, (int rank, MPI_Win win));
MAINSTAY_MPI(int, Win_flush_all, (MPI_Win win));
MAINSTAY_MPI(int, Win_flush_local, (int rank, MPI_Win win));
MAINSTAY_MPI(int, Win_flush_local_all, (MPI_Win win));
MAINSTAY_MPI(int, Win_free, (MPI_Win *win));
MAINSTAY_MPI(int, Win_free_keyval, (int *win_keyval));
MAINSTAY_MPI(int, Win_get_attr, (MPI_Win win, int win_keyval, void *attribute_val, int *flag));
MAINSTAY_MPI(int, Win_get_errhandler, (MPI_Win win, MPI_Errhandler *errhandler));
MAINSTAY_MPI(int, Win_get_group, (MPI_Win win, MPI_Group *group));
MAINSTAY_MPI(int, Win_get_info, (MPI_Win win, MPI_Info *info_used));
MAINSTAY_MPI(int, Win_get_name, (MPI_Win win, char *win_name, int *resultlen));
MAINSTAY_MPI(int, Win_lock, (int lock_type, int rank, int assert, MPI_Win win));
MAINSTAY_MPI(int, Win_lock_all, (int assert, MPI_Win win));
MAINSTAY_MPI(int, Win_post, (MPI_Group group, int assert, MPI_Win win));
MAINSTAY_MPI(int, Win_set_attr, (MPI_Win win, int win_keyval, void *attribute_val));
MAINSTAY_MPI(int, Win_set_errhandler, (MPI_Win win, MPI_Errhandler errhandler));
MAINSTAY_MPI(int, Win_set_info, (MPI_Win win, MPI_Info info));
MAINSTAY_MPI(int, Win_set_name, (MPI_Win win, const char *win_name));
MAINSTAY_MPI(int, Win_shared_query, (MPI_Win win, int rank, MPI_Aint *size, int *disp_unit, void *baseptr));
MAINSTAY_MPI(int, Win_shared_query_c, (MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr));
MAINSTAY_MPI(int, Win_start, (MPI_Group group, int assert, MPI_Win win));
MAINSTAY_MPI(int, Win_sync, (MPI_Win win));
MAINSTAY_MPI(int, Win_test, (MPI_Win win, int *flag));
MAINSTAY_MPI(int, Win_unlock, (int rank, MPI_Win win));
MAINSTAY_MPI(int, Win_unlock_all, (MPI_Win win));
MAINSTAY_MPI(int, Win_wait, (MPI_Win win));
