/* Communicators, groups, topologies, and attributes of communicators. Included by mpi.h. Licence: MIT OR Apache-2.0. */
MAINSTAY_MPI(int, Attr_delete, (MPI_Comm comm, int keyval));
MAINSTAY_MPI(int, Attr_get, (MPI_Comm comm, int keyval, void *attribute_val, int *flag));
MAINSTAY_MPI(int, Attr_put, (MPI_Comm comm, int keyval, void *attribute_val));
MAINSTAY_MPI(int, Cart_coords, (MPI_Comm comm, int rank, int maxdims, int coords[]));
MAINSTAY_MPI(int, Cart_create, (MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int reorder,
             MPI_Comm *comm_cart));
MAINSTAY_MPI(int, Cart_get, (MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]));
MAINSTAY_MPI(int, Cart_map, (MPI_Comm comm, int ndims, const int dims[], const int periods[], int *newrank));
MAINSTAY_MPI(int, Cart_rank, (MPI_Comm comm, const int coords[], int *rank));
MAINSTAY_MPI(int, Cart_shift, (MPI_Comm comm, int direction, int disp, int *rank_source, int *rank_dest));
MAINSTAY_MPI(int, Cart_sub, (MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm));
MAINSTAY_MPI(int, Cartdim_get, (MPI_Comm comm, int *ndims));
MAINSTAY_MPI(MPI_Fint, Comm_c2f, (MPI_Comm comm));
MAINSTAY_MPI(int, Comm_call_errhandler, (MPI_Comm comm, int errorcode));
MAINSTAY_MPI(int, Comm_compare, (MPI_Comm comm1, MPI_Comm comm2, int *result));
MAINSTAY_MPI(int, Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_create_errhandler, (MPI_Comm_errhandler_function *comm_errhandler_fn, MPI_Errhandler
             *errhandler));
MAINSTAY_MPI(int, Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_create_keyval, (MPI_Comm_copy_attr_function *comm_copy_attr_fn, MPI_Comm_delete_attr_function
             *comm_delete_attr_fn, int *comm_keyval, void *extra_state));
MAINSTAY_MPI(int, Comm_delete_attr, (MPI_Comm comm, int comm_keyval));
MAINSTAY_MPI(int, Comm_disconnect, (MPI_Comm *comm));
MAINSTAY_MPI(int, Comm_dup, (MPI_Comm comm, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm));
MAINSTAY_MPI(MPI_Comm, Comm_f2c, (MPI_Fint comm));
MAINSTAY_MPI(int, Comm_free, (MPI_Comm *comm));
MAINSTAY_MPI(int, Comm_free_keyval, (int *comm_keyval));
MAINSTAY_MPI(MPI_Comm, Comm_fromint, (int comm));
MAINSTAY_MPI(int, Comm_get_attr, (MPI_Comm comm, int comm_keyval, void *attribute_val, int *flag));
MAINSTAY_MPI(int, Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler *errhandler));
MAINSTAY_MPI(int, Comm_get_info, (MPI_Comm comm, MPI_Info *info_used));
MAINSTAY_MPI(int, Comm_get_name, (MPI_Comm comm, char *comm_name, int *resultlen));
MAINSTAY_MPI(int, Comm_get_parent, (MPI_Comm *parent));
MAINSTAY_MPI(int, Comm_group, (MPI_Comm comm, MPI_Group *group));
MAINSTAY_MPI(int, Comm_idup, (MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request));
MAINSTAY_MPI(int, Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request));
MAINSTAY_MPI(int, Comm_rank, (MPI_Comm comm, int *rank));
MAINSTAY_MPI(int, Comm_remote_group, (MPI_Comm comm, MPI_Group *group));
MAINSTAY_MPI(int, Comm_remote_size, (MPI_Comm comm, int *size));
MAINSTAY_MPI(int, Comm_set_attr, (MPI_Comm comm, int comm_keyval, void *attribute_val));
MAINSTAY_MPI(int, Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler errhandler));
MAINSTAY_MPI(int, Comm_set_info, (MPI_Comm comm, MPI_Info info));
MAINSTAY_MPI(int, Comm_set_name, (MPI_Comm comm, const char *comm_name));
MAINSTAY_MPI(int, Comm_size, (MPI_Comm comm, int *size));
MAINSTAY_MPI(int, Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_split_type, (MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm));
MAINSTAY_MPI(int, Comm_test_inter, (MPI_Comm comm, int *flag));
MAINSTAY_MPI(int, Comm_toint, (MPI_Comm comm));
MAINSTAY_MPI(int, Dims_create, (int nnodes, int ndims, int dims[]));
MAINSTAY_MPI(int, Dist_graph_create, (MPI_Comm comm_old, int n, const int sources[], const int degrees[], const int
             destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *comm_dist_graph));
MAINSTAY_MPI(int, Dist_graph_create_adjacent, (MPI_Comm comm_old, int indegree, const int sources[], const int
             sourceweights[], int outdegree, const int destinations[], const int destweights[], MPI_Info info, int
             reorder, MPI_Comm *comm_dist_graph));
MAINSTAY_MPI(int, Dist_graph_neighbors, (MPI_Comm comm, int maxindegree, int sources[], int sourceweights[], int
             maxoutdegree, int destinations[], int destweights[]));
MAINSTAY_MPI(int, Dist_graph_neighbors_count, (MPI_Comm comm, int *indegree, int *outdegree, int *weighted));
MAINSTAY_MPI(int, Graph_create, (MPI_Comm comm_old, int nnodes, const int indx[], const int edges[], int reorder,
             MPI_Comm *comm_graph));
MAINSTAY_MPI(int, Graph_get, (MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[]));
MAINSTAY_MPI(int, Graph_map, (MPI_Comm comm, int nnodes, const int indx[], const int edges[], int *newrank));
MAINSTAY_MPI(int, Graph_neighbors, (MPI_Comm comm, int rank, int maxneighbors, int neighbors[]));
MAINSTAY_MPI(int, Graph_neighbors_count, (MPI_Comm comm, int rank, int *nneighbors));
MAINSTAY_MPI(int, Graphdims_get, (MPI_Comm comm, int *nnodes, int *nedges));
MAINSTAY_MPI(MPI_Fint, Group_c2f, (MPI_Group group));
MAINSTAY_MPI(int, Group_compare, (MPI_Group group1, MPI_Group group2, int *result));
MAINSTAY_MPI(int, Group_difference, (MPI_Group group1, MPI_Group group2, MPI_Group *newgroup));
MAINSTAY_MPI(int, Group_excl, (MPI_Group group, int n, const int ranks[], MPI_Group *newgroup));
MAINSTAY_MPI(MPI_Group, Group_f2c, (MPI_Fint group));
MAINSTAY_MPI(int, Group_free, (MPI_Group *group));
MAINSTAY_MPI(MPI_Group, Group_fromint, (int group));
MAINSTAY_MPI(int, Group_incl, (MPI_Group group, int n, const int ranks[], MPI_Group *newgroup));
MAINSTAY_MPI(int, Group_intersection, (MPI_Group group1, MPI_Group group2, MPI_Group *newgroup));
MAINSTAY_MPI(int, Group_range_excl, (MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup));
MAINSTAY_MPI(int, Group_range_incl, (MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup));
MAINSTAY_MPI(int, Group_rank, (MPI_Group group, int *rank));
MAINSTAY_MPI(int, Group_size, (MPI_Group group, int *size));
MAINSTAY_MPI(int, Group_toint, (MPI_Group group));
MAINSTAY_MPI(int, Group_translate_ranks, (MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[]));
MAINSTAY_MPI(int, Group_union, (MPI_Group group1, MPI_Group group2, MPI_Group *newgroup));
MAINSTAY_MPI(int, Intercomm_create, (MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int
             tag, MPI_Comm *newintercomm));
MAINSTAY_MPI(int, Intercomm_merge, (MPI_Comm intercomm, int high, MPI_Comm *newintracomm));
MAINSTAY_MPI(int, Keyval_create, (MPI_Copy_function *copy_fn, MPI_Delete_function *delete_fn, int *keyval, void
             *extra_state));
MAINSTAY_MPI(int, Keyval_free, (int *keyval));
MAINSTAY_MPI(int, Topo_test, (MPI_Comm comm, int *status));
