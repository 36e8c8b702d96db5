/* Cartesian topologies. The last dimension runs fastest. Licence: MIT OR Apache-2.0. */
#include "comm.h"
#include "topology.h"

/* The place along a dimension, or -1 if it lies outside a dimension that is not periodic. */
static int wrapped(const struct cartesian *grid, int dimension, long place) {
  int size = grid->dims[dimension];
  if (place >= 0 && place < size) return (int)place;
  return grid->periods[dimension] ? (int)((place % size + size) % size) : -1;
}

static void coords_of(const struct cartesian *grid, int rank, int *coords) {
  for (int i = grid->count - 1; i >= 0; i--) {
    coords[i] = rank % grid->dims[i];
    rank /= grid->dims[i];
  }
}

int cartesian_neighbor(const struct cartesian *grid, int dimension, int by) {
  int rank = 0;
  for (int i = 0; i < grid->count; i++) {
    int place = i == dimension ? wrapped(grid, i, (long)grid->coords[i] + by) : grid->coords[i];
    if (place < 0) return MPI_PROC_NULL;
    rank = rank * grid->dims[i] + place;
  }
  return rank;
}

/* The number of ranks in a grid: 1 if it has no dimensions; -1 if a dimension is not valid. */
static long ranks_in(int count, const int *dims) {
  long ranks = 1;
  for (int i = 0; i < count; i++) {
    if (dims[i] <= 0) return -1;
    ranks = ranks * dims[i] > INT32_MAX ? INT32_MAX : ranks * dims[i];
  }
  return ranks;
}

static int check_grid(const struct comm *comm, int count, const int *dims, const int *periods) {
  if (comm->remote) return MPI_ERR_COMM;
  if (count < 0 || (count > 0 && (!dims || !periods))) return MPI_ERR_ARG;
  long ranks = ranks_in(count, dims);
  if (ranks < 0) return MPI_ERR_DIMS;
  return ranks > comm_size(comm) ? MPI_ERR_ARG : MPI_SUCCESS;
}

static void set_grid(struct comm *comm, int count, const int *dims, const int *periods) {
  comm->topology = topology_new(MPI_CART);
  struct cartesian *grid = &comm->topology->cartesian;
  grid->count = count;
  grid->dims = list_copy(dims, (size_t)count);
  grid->periods = list_copy(periods, (size_t)count);
  grid->coords = take_memory(((size_t)count + 1) * sizeof *grid->coords);
  for (int i = 0; i < count; i++) grid->periods[i] = periods[i] != 0;
  coords_of(grid, comm_rank(comm), grid->coords);
}

MPI(Cart_create)(MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int reorder,
                 MPI_Comm *comm_cart) {
  struct comm *old = comm_of(comm_old);
  (void)reorder;
  if (!old) return fail(NULL, MPI_ERR_COMM);
  int error = check_grid(old, ndims, dims, periods);
  if (!error && !comm_cart) error = MPI_ERR_ARG;
  if (error) return fail(old, error);
  int rank = comm_rank(old);
  struct comm *grid = comm_split_by(old, rank < ranks_in(ndims, dims) ? 0 : MPI_UNDEFINED, rank);
  *comm_cart = MPI_COMM_NULL;
  if (!grid) return MPI_SUCCESS;
  set_grid(grid, ndims, dims, periods);
  *comm_cart = comm_handle(grid);
  return MPI_SUCCESS;
}

/* The grid of a communicator. Otherwise `error` is set. */
static const struct cartesian *grid_of(const struct comm *comm, int *error) {
  *error = MPI_SUCCESS;
  if (!comm) *error = MPI_ERR_COMM;
  if (comm && (!comm->topology || comm->topology->kind != MPI_CART)) *error = MPI_ERR_TOPOLOGY;
  return *error ? NULL : &comm->topology->cartesian;
}

MPI(Cartdim_get)(MPI_Comm comm, int *ndims) {
  struct comm *members = comm_of(comm);
  int error;
  const struct cartesian *grid = grid_of(members, &error);
  if (error) return fail(members, error);
  if (!ndims) return fail(members, MPI_ERR_ARG);
  *ndims = grid->count;
  return MPI_SUCCESS;
}

MPI(Cart_get)(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]) {
  struct comm *members = comm_of(comm);
  int error;
  const struct cartesian *grid = grid_of(members, &error);
  if (error) return fail(members, error);
  if (maxdims < grid->count) return fail(members, MPI_ERR_ARG);
  if (grid->count > 0 && (!dims || !periods || !coords)) return fail(members, MPI_ERR_ARG);
  for (int i = 0; i < grid->count; i++) {
    dims[i] = grid->dims[i];
    periods[i] = grid->periods[i];
    coords[i] = grid->coords[i];
  }
  return MPI_SUCCESS;
}

MPI(Cart_rank)(MPI_Comm comm, const int coords[], int *rank) {
  struct comm *members = comm_of(comm);
  int error;
  const struct cartesian *grid = grid_of(members, &error);
  if (error) return fail(members, error);
  if (!rank || (grid->count > 0 && !coords)) return fail(members, MPI_ERR_ARG);
  int result = 0;
  for (int i = 0; i < grid->count; i++) {
    int place = wrapped(grid, i, coords[i]);
    if (place < 0) return fail(members, MPI_ERR_ARG);
    result = result * grid->dims[i] + place;
  }
  *rank = result;
  return MPI_SUCCESS;
}

MPI(Cart_coords)(MPI_Comm comm, int rank, int maxdims, int coords[]) {
  struct comm *members = comm_of(comm);
  int error;
  const struct cartesian *grid = grid_of(members, &error);
  if (error) return fail(members, error);
  if (rank < 0 || rank >= comm_size(members)) return fail(members, MPI_ERR_RANK);
  if (maxdims < grid->count || (grid->count > 0 && !coords)) return fail(members, MPI_ERR_ARG);
  coords_of(grid, rank, coords);
  return MPI_SUCCESS;
}

MPI(Cart_shift)(MPI_Comm comm, int direction, int disp, int *rank_source, int *rank_dest) {
  struct comm *members = comm_of(comm);
  int error;
  const struct cartesian *grid = grid_of(members, &error);
  if (error) return fail(members, error);
  if (direction < 0 || direction >= grid->count || !rank_source || !rank_dest) return fail(members, MPI_ERR_ARG);
  *rank_source = cartesian_neighbor(grid, direction, -disp);
  *rank_dest = cartesian_neighbor(grid, direction, disp);
  return MPI_SUCCESS;
}

/* Ranks with equal places in the dropped dimensions make one grid, in the order of the others. */
MPI(Cart_sub)(MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm) {
  struct comm *members = comm_of(comm);
  int error;
  const struct cartesian *grid = grid_of(members, &error);
  if (error) return fail(members, error);
  if (!newcomm || (grid->count > 0 && !remain_dims)) return fail(members, MPI_ERR_ARG);
  int color = 0, key = 0, count = 0;
  int *dims = take_memory(2 * ((size_t)grid->count + 1) * sizeof *dims), *periods = dims + grid->count + 1;
  for (int i = 0; i < grid->count; i++) {
    int *place = remain_dims[i] ? &key : &color;
    *place = *place * grid->dims[i] + grid->coords[i];
    if (!remain_dims[i]) continue;
    dims[count] = grid->dims[i];
    periods[count++] = grid->periods[i];
  }
  struct comm *part = comm_split_by(members, color, key);
  set_grid(part, count, dims, periods);
  free(dims);
  *newcomm = comm_handle(part);
  return MPI_SUCCESS;
}

MPI(Cart_map)(MPI_Comm comm, int ndims, const int dims[], const int periods[], int *newrank) {
  struct comm *old = comm_of(comm);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  int error = check_grid(old, ndims, dims, periods);
  if (!error && !newrank) error = MPI_ERR_ARG;
  if (error) return fail(old, error);
  *newrank = comm_rank(old) < ranks_in(ndims, dims) ? comm_rank(old) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

/* Splits `nodes` into `count` factors that fall and of which none exceeds `most`. The first solution found has the
 * smallest first factor, and of these the smallest second one: factors as close to one another as can be. */
static bool factors(int nodes, int count, int most, int *dims) {
  if (count == 0) return nodes == 1;
  for (long factor = 1; factor <= most && factor <= nodes; factor++) {
    if (nodes % factor) continue;
    double room = 1;
    for (int i = 0; i < count; i++) room *= (double)factor;
    if (room < nodes) continue;
    dims[0] = (int)factor;
    if (factors(nodes / (int)factor, count - 1, (int)factor, dims + 1)) return true;
  }
  return false;
}

MPI(Dims_create)(int nnodes, int ndims, int dims[]) {
  if (nnodes <= 0 || ndims < 0 || (ndims > 0 && !dims)) return fail(NULL, MPI_ERR_ARG);
  long fixed = 1;
  int open = 0;
  for (int i = 0; i < ndims; i++) {
    if (dims[i] < 0) return fail(NULL, MPI_ERR_DIMS);
    if (dims[i] == 0) open++;
    if (dims[i] > 0 && fixed <= nnodes) fixed *= dims[i];
  }
  if (ndims == 0) return MPI_SUCCESS;
  if (nnodes % fixed != 0 || (open == 0 && fixed != nnodes)) return fail(NULL, MPI_ERR_DIMS);
  int *found = take_memory(((size_t)open + 1) * sizeof *found), at = 0;
  int rest = (int)(nnodes / fixed);
  factors(rest, open, rest, found);
  for (int i = 0; i < ndims; i++)
    if (dims[i] == 0) dims[i] = found[at++];
  free(found);
  return MPI_SUCCESS;
}
