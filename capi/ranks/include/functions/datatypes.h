/* Datatypes, packing and statuses. Included by mpi.h. Licence: MIT OR Apache-2.0. */
MAINSTAY_MPI(int, Address, (void *location, MPI_Aint *address));
MAINSTAY_MPI(MPI_Aint, Aint_add, (MPI_Aint base, MPI_Aint disp));
MAINSTAY_MPI(MPI_Aint, Aint_diff, (MPI_Aint addr1, MPI_Aint addr2));
MAINSTAY_MPI(int, Get_address, (const void *location, MPI_Aint *address));
MAINSTAY_MPI(int, Get_count, (const MPI_Status *status, MPI_Datatype datatype, int *count));
MAINSTAY_MPI(int, Get_count_c, (const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count));
MAINSTAY_MPI(int, Get_elements, (const MPI_Status *status, MPI_Datatype datatype, int *count));
MAINSTAY_MPI(int, Get_elements_c, (const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count));
MAINSTAY_MPI(int, Get_elements_x, (const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count));
MAINSTAY_MPI(int, Pack, (const void *inbuf, int incount, MPI_Datatype datatype, void *outbuf, int outsize, int
             *position, MPI_Comm comm));
MAINSTAY_MPI(int, Pack_c, (const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf, MPI_Count outsize,
             MPI_Count *position, MPI_Comm comm));
MAINSTAY_MPI(int, Pack_external, (const char *datarep, const void *inbuf, int incount, MPI_Datatype datatype, void
             *outbuf, MPI_Aint outsize, MPI_Aint *position));
MAINSTAY_MPI(int, Pack_external_c, (const char *datarep, const void *inbuf, MPI_Count incount, MPI_Datatype datatype,
             void *outbuf, MPI_Count outsize, MPI_Count *position));
MAINSTAY_MPI(int, Pack_external_size, (const char *datarep, int incount, MPI_Datatype datatype, MPI_Aint *size));
MAINSTAY_MPI(int, Pack_external_size_c, (const char *datarep, MPI_Count incount, MPI_Datatype datatype, MPI_Count
             *size));
MAINSTAY_MPI(int, Pack_size, (int incount, MPI_Datatype datatype, MPI_Comm comm, int *size));
MAINSTAY_MPI(int, Pack_size_c, (MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count *size));
MAINSTAY_MPI(int, Status_c2f, (const MPI_Status *c_status, MPI_Fint *f_status));
MAINSTAY_MPI(int, Status_c2f08, (const MPI_Status *c_status, MPI_F08_status *f08_status));
MAINSTAY_MPI(int, Status_f082c, (const MPI_F08_status *f08_status, MPI_Status *c_status));
MAINSTAY_MPI(int, Status_f082f, (const MPI_F08_status *f08_status, MPI_Fint *f_status));
MAINSTAY_MPI(int, Status_f2c, (const MPI_Fint *f_status, MPI_Status *c_status));
MAINSTAY_MPI(int, Status_f2f08, (const MPI_Fint *f_status, MPI_F08_status *f08_status));
MAINSTAY_MPI(int, Status_get_error, (const MPI_Status *status, int *error));
MAINSTAY_MPI(int, Status_get_source, (const MPI_Status *status, int *source));
MAINSTAY_MPI(int, Status_get_tag, (const MPI_Status *status, int *tag));
MAINSTAY_MPI(int, Status_set_cancelled, (MPI_Status *status, int flag));
MAINSTAY_MPI(int, Status_set_elements, (MPI_Status *status, MPI_Datatype datatype, int count));
MAINSTAY_MPI(int, Status_set_elements_c, (MPI_Status *status, MPI_Datatype datatype, MPI_Count count));
MAINSTAY_MPI(int, Status_set_elements_x, (MPI_Status *status, MPI_Datatype datatype, MPI_Count count));
MAINSTAY_MPI(int, Status_set_error, (MPI_Status *status, int error));
MAINSTAY_MPI(int, Status_set_source, (MPI_Status *status, int source));
MAINSTAY_MPI(int, Status_set_tag, (MPI_Status *status, int tag));
MAINSTAY_MPI(MPI_Fint, Type_c2f, (MPI_Datatype datatype));
MAINSTAY_MPI(int, Type_commit, (MPI_Datatype *datatype));
MAINSTAY_MPI(int, Type_contiguous, (int count, MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_contiguous_c, (MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_darray, (int size, int rank, int ndims, const int array_of_gsizes[], const int
             array_of_distribs[], const int array_of_dargs[], const int array_of_psizes[], int order, MPI_Datatype
             oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_darray_c, (int size, int rank, int ndims, const MPI_Count array_of_gsizes[], const int
             array_of_distribs[], const int array_of_dargs[], const int array_of_psizes[], int order, MPI_Datatype
             oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_f90_complex, (int p, int r, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_f90_integer, (int r, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_f90_real, (int p, int r, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_hindexed, (int count, const int array_of_blocklengths[], const MPI_Aint
             array_of_displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_hindexed_block, (int count, int blocklength, const MPI_Aint array_of_displacements[],
             MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_hindexed_block_c, (MPI_Count count, MPI_Count blocklength, const MPI_Count
             array_of_displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_hindexed_c, (MPI_Count count, const MPI_Count array_of_blocklengths[], const MPI_Count
             array_of_displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_hvector, (int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype
             *newtype));
MAINSTAY_MPI(int, Type_create_hvector_c, (MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype
             oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_indexed_block, (int count, int blocklength, const int array_of_displacements[],
             MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_indexed_block_c, (MPI_Count count, MPI_Count blocklength, const MPI_Count
             array_of_displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_keyval, (MPI_Type_copy_attr_function *type_copy_attr_fn, MPI_Type_delete_attr_function
             *type_delete_attr_fn, int *type_keyval, void *extra_state));
MAINSTAY_MPI(int, Type_create_resized, (MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_resized_c, (MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_struct, (int count, const int array_of_blocklengths[], const MPI_Aint
             array_of_displacements[], const MPI_Datatype array_of_types[], MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_struct_c, (MPI_Count count, const MPI_Count array_of_blocklengths[], const MPI_Count
             array_of_displacements[], const MPI_Datatype array_of_types[], MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_subarray, (int ndims, const int array_of_sizes[], const int array_of_subsizes[], const int
             array_of_starts[], int order, MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_create_subarray_c, (int ndims, const MPI_Count array_of_sizes[], const MPI_Count
             array_of_subsizes[], const MPI_Count array_of_starts[], int order, MPI_Datatype oldtype, MPI_Datatype
             *newtype));
MAINSTAY_MPI(int, Type_delete_attr, (MPI_Datatype datatype, int type_keyval));
MAINSTAY_MPI(int, Type_dup, (MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_extent, (MPI_Datatype datatype, MPI_Aint *extent));
MAINSTAY_MPI(MPI_Datatype, Type_f2c, (MPI_Fint datatype));
MAINSTAY_MPI(int, Type_free, (MPI_Datatype *datatype));
MAINSTAY_MPI(int, Type_free_keyval, (int *type_keyval));
MAINSTAY_MPI(MPI_Datatype, Type_fromint, (int datatype));
MAINSTAY_MPI(int, Type_get_attr, (MPI_Datatype datatype, int type_keyval, void *attribute_val, int *flag));
MAINSTAY_MPI(int, Type_get_contents, (MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes, int
             array_of_integers[], MPI_Aint array_of_addresses[], MPI_Datatype array_of_datatypes[]));
MAINSTAY_MPI(int, Type_get_contents_c, (MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
             MPI_Count max_large_counts, MPI_Count max_datatypes, int array_of_integers[], MPI_Aint
             array_of_addresses[], MPI_Count array_of_large_counts[], MPI_Datatype array_of_datatypes[]));
MAINSTAY_MPI(int, Type_get_envelope, (MPI_Datatype datatype, int *num_integers, int *num_addresses, int *num_datatypes,
             int *combiner));
MAINSTAY_MPI(int, Type_get_envelope_c, (MPI_Datatype datatype, MPI_Count *num_integers, MPI_Count *num_addresses,
             MPI_Count *num_large_counts, MPI_Count *num_datatypes, int *combiner));
MAINSTAY_MPI(int, Type_get_extent, (MPI_Datatype datatype, MPI_Aint *lb, MPI_Aint *extent));
MAINSTAY_MPI(int, Type_get_extent_c, (MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent));
MAINSTAY_MPI(int, Type_get_extent_x, (MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent));
MAINSTAY_MPI(int, Type_get_name, (MPI_Datatype datatype, char *type_name, int *resultlen));
MAINSTAY_MPI(int, Type_get_true_extent, (MPI_Datatype datatype, MPI_Aint *true_lb, MPI_Aint *true_extent));
MAINSTAY_MPI(int, Type_get_true_extent_c, (MPI_Datatype datatype, MPI_Count *true_lb, MPI_Count *true_extent));
MAINSTAY_MPI(int, Type_get_true_extent_x, (MPI_Datatype datatype, MPI_Count *true_lb, MPI_Count *true_extent));
MAINSTAY_MPI(int, Type_get_value_index, (MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype *pair_type));
MAINSTAY_MPI(int, Type_hindexed, (int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
             MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_hvector, (int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype
             *newtype));
MAINSTAY_MPI(int, Type_indexed, (int count, const int array_of_blocklengths[], const int array_of_displacements[],
             MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_indexed_c, (MPI_Count count, const MPI_Count array_of_blocklengths[], const MPI_Count
             array_of_displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_lb, (MPI_Datatype datatype, MPI_Aint *displacement));
MAINSTAY_MPI(int, Type_match_size, (int typeclass, int size, MPI_Datatype *datatype));
MAINSTAY_MPI(int, Type_set_attr, (MPI_Datatype datatype, int type_keyval, void *attribute_val));
MAINSTAY_MPI(int, Type_set_name, (MPI_Datatype datatype, const char *type_name));
MAINSTAY_MPI(int, Type_size, (MPI_Datatype datatype, int *size));
MAINSTAY_MPI(int, Type_size_c, (MPI_Datatype datatype, MPI_Count *size));
MAINSTAY_MPI(int, Type_size_x, (MPI_Datatype datatype, MPI_Count *size));
MAINSTAY_MPI(int, Type_struct, (int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[], MPI_Datatype
             array_of_types[], MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_toint, (MPI_Datatype datatype));
MAINSTAY_MPI(int, Type_ub, (MPI_Datatype datatype, MPI_Aint *displacement));
MAINSTAY_MPI(int, Type_vector, (int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype *newtype));
MAINSTAY_MPI(int, Type_vector_c, (MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
             MPI_Datatype *newtype));
MAINSTAY_MPI(int, Unpack, (const void *inbuf, int insize, int *position, void *outbuf, int outcount, MPI_Datatype
             datatype, MPI_Comm comm));
MAINSTAY_MPI(int, Unpack_c, (const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf, MPI_Count outcount,
             MPI_Datatype datatype, MPI_Comm comm));
MAINSTAY_MPI(int, Unpack_external, (const char datarep[], const void *inbuf, MPI_Aint insize, MPI_Aint *position, void
             *outbuf, int outcount, MPI_Datatype datatype));
MAINSTAY_MPI(int, Unpack_external_c, (const char datarep[], const void *inbuf, MPI_Count insize, MPI_Count *position,
             void *outbuf, MPI_Count outcount, MPI_Datatype datatype));
