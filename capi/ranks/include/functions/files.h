/* MPI-IO. Included by mpi.h. Licence: MIT OR Apache-2.0. */
MAINSTAY_MPI(MPI_Fint, File_c2f, (MPI_File file));
MAINSTAY_MPI(int, File_call_errhandler, (MPI_File fh, int errorcode));
MAINSTAY_MPI(int, File_close, (MPI_File *fh));
MAINSTAY_MPI(int, File_create_errhandler, (MPI_File_errhandler_function *file_errhandler_fn, MPI_Errhandler
             *errhandler));
MAINSTAY_MPI(int, File_delete, (const char *filename, MPI_Info info));
MAINSTAY_MPI(MPI_File, File_f2c, (MPI_Fint file));
MAINSTAY_MPI(MPI_File, File_fromint, (int file));
MAINSTAY_MPI(int, File_get_amode, (MPI_File fh, int *amode));
MAINSTAY_MPI(int, File_get_atomicity, (MPI_File fh, int *flag));
MAINSTAY_MPI(int, File_get_byte_offset, (MPI_File fh, MPI_Offset offset, MPI_Offset *disp));
MAINSTAY_MPI(int, File_get_errhandler, (MPI_File file, MPI_Errhandler *errhandler));
MAINSTAY_MPI(int, File_get_group, (MPI_File fh, MPI_Group *group));
MAINSTAY_MPI(int, File_get_info, (MPI_File fh, MPI_Info *info_used));
MAINSTAY_MPI(int, File_get_position, (MPI_File fh, MPI_Offset *offset));
MAINSTAY_MPI(int, File_get_size, (MPI_File fh, MPI_Offset *size));
MAINSTAY_MPI(int, File_get_type_extent, (MPI_File fh, MPI_Datatype datatype, MPI_Aint *extent));
MAINSTAY_MPI(int, File_get_type_extent_c, (MPI_File fh, MPI_Datatype datatype, MPI_Count *extent));
MAINSTAY_MPI(int, File_get_view, (MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype, char
             *datarep));
MAINSTAY_MPI(int, File_iread, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iread_all, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iread_all_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Request
             *request));
MAINSTAY_MPI(int, File_iread_at, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype,
             MPI_Request *request));
MAINSTAY_MPI(int, File_iread_at_all, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype,
             MPI_Request *request));
MAINSTAY_MPI(int, File_iread_at_all_c, (MPI_File fh, MPI_Offset offset, void *buf, MPI_Count count, MPI_Datatype
             datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iread_at_c, (MPI_File fh, MPI_Offset offset, void *buf, MPI_Count count, MPI_Datatype datatype,
             MPI_Request *request));
MAINSTAY_MPI(int, File_iread_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iwrite, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iwrite_all, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request
             *request));
MAINSTAY_MPI(int, File_iwrite_all_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Request
             *request));
MAINSTAY_MPI(int, File_iwrite_at, (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype,
             MPI_Request *request));
MAINSTAY_MPI(int, File_iwrite_at_all, (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype
             datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iwrite_at_all_c, (MPI_File fh, MPI_Offset offset, const void *buf, MPI_Count count, MPI_Datatype
             datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iwrite_at_c, (MPI_File fh, MPI_Offset offset, const void *buf, MPI_Count count, MPI_Datatype
             datatype, MPI_Request *request));
MAINSTAY_MPI(int, File_iwrite_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Request
             *request));
MAINSTAY_MPI(int, File_open, (MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh));
MAINSTAY_MPI(int, File_preallocate, (MPI_File fh, MPI_Offset size));
MAINSTAY_MPI(int, File_read, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_read_all, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_read_all_begin, (MPI_File fh, void *buf, int count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_read_all_begin_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_read_all_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_read_all_end, (MPI_File fh, void *buf, MPI_Status *status));
MAINSTAY_MPI(int, File_read_at, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_read_at_all, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype,
             MPI_Status *status));
MAINSTAY_MPI(int, File_read_at_all_begin, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype
             datatype));
MAINSTAY_MPI(int, File_read_at_all_begin_c, (MPI_File fh, MPI_Offset offset, void *buf, MPI_Count count, MPI_Datatype
             datatype));
MAINSTAY_MPI(int, File_read_at_all_c, (MPI_File fh, MPI_Offset offset, void *buf, MPI_Count count, MPI_Datatype
             datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_read_at_all_end, (MPI_File fh, void *buf, MPI_Status *status));
MAINSTAY_MPI(int, File_read_at_c, (MPI_File fh, MPI_Offset offset, void *buf, MPI_Count count, MPI_Datatype datatype,
             MPI_Status *status));
MAINSTAY_MPI(int, File_read_c, (MPI_File fh, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_seek, (MPI_File fh, MPI_Offset offset, int whence));
MAINSTAY_MPI(int, File_set_atomicity, (MPI_File fh, int flag));
MAINSTAY_MPI(int, File_set_errhandler, (MPI_File file, MPI_Errhandler errhandler));
MAINSTAY_MPI(int, File_set_info, (MPI_File fh, MPI_Info info));
MAINSTAY_MPI(int, File_set_size, (MPI_File fh, MPI_Offset size));
MAINSTAY_MPI(int, File_set_view, (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char
             *datarep, MPI_Info info));
MAINSTAY_MPI(int, File_sync, (MPI_File fh));
MAINSTAY_MPI(int, File_toint, (MPI_File file));
MAINSTAY_MPI(int, File_write, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_write_all, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_write_all_begin, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_write_all_begin_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype));
MAINSTAY_MPI(int, File_write_all_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status
             *status));
MAINSTAY_MPI(int, File_write_all_end, (MPI_File fh, const void *buf, MPI_Status *status));
MAINSTAY_MPI(int, File_write_at, (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype,
             MPI_Status *status));
MAINSTAY_MPI(int, File_write_at_all, (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype,
             MPI_Status *status));
MAINSTAY_MPI(int, File_write_at_all_begin, (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype
             datatype));
MAINSTAY_MPI(int, File_write_at_all_begin_c, (MPI_File fh, MPI_Offset offset, const void *buf, MPI_Count count,
             MPI_Datatype datatype));
MAINSTAY_MPI(int, File_write_at_all_c, (MPI_File fh, MPI_Offset offset, const void *buf, MPI_Count count, MPI_Datatype
             datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_write_at_all_end, (MPI_File fh, const void *buf, MPI_Status *status));
MAINSTAY_MPI(int, File_write_at_c, (MPI_File fh, MPI_Offset offset, const void *buf, MPI_Count count, MPI_Datatype
             datatype, MPI_Status *status));
MAINSTAY_MPI(int, File_write_c, (MPI_File fh, const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Status
             *status));
