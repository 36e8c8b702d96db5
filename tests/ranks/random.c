/* random SEED PHASES: a random MPI program without deadlocks. Every rank draws the same plan from the seed. Each prints
 * a digest of all that it received.
 *
 * In a phase a rank first starts some receives, then all its sends, and then waits. So nobody waits for a later phase.
 * A receive from any source has a tag of its own, or a single sender: the outcome is determined. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMS = 6, RANKS = 64, KINDS = 4, MESSAGES = 40, UNIT = 6, NUMBERS = 30000 };

typedef struct {
  MPI_Comm comm;
  int group[RANKS], place[RANKS], size[RANKS]; /* of each rank of the world: its part, and its rank in that */
} part;

/* What was received, for the digest at the end. */
typedef struct kept {
  struct kept *next;
  int *numbers, count, has_status;
  MPI_Status status;
  MPI_Request request;
} kept;

static int rank, ranks, next_tag, comms;
static part parts[COMMS];
static MPI_Datatype types[KINDS];
static const int type_numbers[KINDS] = {1, 2, 3, 6};
static kept *first, **last = &first;
static MPI_Op product;

/* The plan, alike on all ranks; and choices of each rank alone. */
static uint64_t plan, own;

static int draw(uint64_t *state, int below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (int)((*state >> 33) % (uint64_t)below);
}

static int *numbers(int count, int seed) {
  int *made = malloc((size_t)(2 * count + 16) * sizeof *made);
  for (int i = 0; i < 2 * count + 16; i++) made[i] = seed < 0 ? -1 : (seed * 31 + i * 17) & 0xffff;
  return made;
}

/* Keeps numbers that a request or a blocking call fills. */
static kept *keep(int *filled, int count) {
  kept *one = calloc(1, sizeof *one);
  one->numbers = filled, one->count = 2 * count + 16, one->request = MPI_REQUEST_NULL;
  *last = one, last = &one->next;
  return one;
}

static kept *room(int count) { return keep(numbers(count, -1), count); }

/* Ends some of the requests, in an order of this rank's own. */
static void end_some(int share) {
  enum { MAX = 200 };
  MPI_Request requests[MAX];
  kept *whose[MAX];
  MPI_Status statuses[MAX];
  int count = 0, done, indices[MAX];
  for (kept *one = first; one && count < MAX; one = one->next)
    if (one->request != MPI_REQUEST_NULL && draw(&own, 100) < share)
      requests[count] = one->request, whose[count++] = one;
  for (int left = count; left > 0;) {
    int way = draw(&own, 4);
    if (way == 0) {
      MPI_Waitany(count, requests, indices, statuses), done = 1;
    } else if (way == 1) {
      MPI_Waitsome(count, requests, &done, indices, statuses);
    } else if (way == 2) {
      MPI_Testsome(count, requests, &done, indices, statuses);
    } else {
      MPI_Testany(count, requests, indices, &done, statuses);
    }
    for (int i = 0; i < done; i++) {
      kept *one = whose[indices[i]];
      one->status = statuses[i], one->request = MPI_REQUEST_NULL;
      left--;
    }
  }
}

typedef struct {
  int part, from, to, tag, count, out_type, in_type, sends, receives;
} message;

/* In a phase all messages to a rank from one sender are taken in order (wild 1), or all messages have one sender
 * (wild 2). */
static int draw_messages(message *all, int wild) {
  int count = 1 + draw(&plan, MESSAGES), sender = draw(&plan, ranks), made = 0, part_of_all = draw(&plan, comms);
  for (int i = 0; i < count; i++) {
    message one;
    one.part = wild ? part_of_all : draw(&plan, comms);
    one.from = wild == 2 ? sender : draw(&plan, ranks), one.to = draw(&plan, ranks);
    int is_large = draw(&plan, 12) == 0;
    one.count = UNIT * draw(&plan, is_large ? NUMBERS / UNIT : 40);
    one.out_type = draw(&plan, KINDS), one.in_type = draw(&plan, KINDS);
    one.sends = draw(&plan, 6), one.receives = draw(&plan, 5);
    one.tag = draw(&plan, 2) ? draw(&plan, 3) : 100 + next_tag++;
    if (parts[one.part].group[one.from] == parts[one.part].group[one.to]) all[made++] = one;
  }
  return made;
}

static void send(const message *one, MPI_Request *pending) {
  part *of = &parts[one->part];
  int *out = numbers(one->count, one->from * 1000 + one->tag), n = one->count / type_numbers[one->out_type];
  int to = of->place[one->to], is_late = one->receives > 2;
  MPI_Datatype type = types[one->out_type];
  kept *owner = keep(out, one->count);
  *pending = MPI_REQUEST_NULL;
  /* A send that waits for its receive is for receives that are started before. */
  if (one->sends == 0 || (one->sends == 1 && is_late))
    MPI_Isend(out, n, type, to, one->tag, of->comm, &owner->request);
  else if (one->sends == 1)
    MPI_Ssend(out, n, type, to, one->tag, of->comm);
  else if (one->sends == 2)
    MPI_Issend(out, n, type, to, one->tag, of->comm, &owner->request);
  else if (one->sends == 3 && !is_late)
    MPI_Send(out, n, type, to, one->tag, of->comm);
  else if (one->sends == 4) {
    MPI_Send_init(out, n, type, to, one->tag, of->comm, pending);
    MPI_Start(pending);
  } else
    MPI_Isend(out, n, type, to, one->tag, of->comm, &owner->request);
}

static void receive(const message *one, int wild) {
  part *of = &parts[one->part];
  kept *into = room(NUMBERS);
  int n = NUMBERS / type_numbers[one->in_type], source = of->place[one->from], tag = one->tag, flag = 0;
  MPI_Datatype type = types[one->in_type];
  MPI_Message matched;
  if (wild) tag = MPI_ANY_TAG;
  if (wild == 2 || (!wild && tag >= 100 && one->count % 4)) source = MPI_ANY_SOURCE;
  into->has_status = 1;
  if (one->receives <= 2) {
    MPI_Irecv(into->numbers, n, type, source, tag, of->comm, &into->request);
  } else if (one->receives == 3) {
    MPI_Recv(into->numbers, n, type, source, tag, of->comm, &into->status);
  } else if (one->sends % 2) {
    MPI_Mprobe(source, tag, of->comm, &matched, &into->status);
    MPI_Mrecv(into->numbers, n, type, &matched, &into->status);
  } else {
    while (!flag) MPI_Iprobe(source, tag, of->comm, &flag, &into->status);
    MPI_Recv(into->numbers, n, type, into->status.MPI_SOURCE, into->status.MPI_TAG, of->comm, &into->status);
  }
}

static void exchange(void) {
  message all[MESSAGES];
  MPI_Request pending[MESSAGES];
  int wild = draw(&plan, 6), sent = 0;
  if (wild > 2) wild = 0;
  int count = draw_messages(all, wild);
  if (wild == 2) MPI_Barrier(MPI_COMM_WORLD);
  /* Messages that look alike to their receives must be asked for in one way: else a later one could be waited for. */
  for (int i = 0; i < count; i++)
    for (int j = 0; j < i; j++)
      if (all[j].to == all[i].to && all[j].part == all[i].part && all[j].from == all[i].from &&
          (wild || all[j].tag == all[i].tag))
        all[i].receives = all[j].receives;
  for (int i = 0; i < count; i++)
    if (all[i].to == rank && all[i].receives <= 2) receive(&all[i], wild);
  for (int i = 0; i < count; i++)
    if (all[i].from == rank) send(&all[i], &pending[sent++]);
  for (int i = 0; i < count; i++)
    if (all[i].to == rank && all[i].receives > 2) receive(&all[i], wild);
  MPI_Waitall(sent, pending, MPI_STATUSES_IGNORE);
  for (int i = 0; i < sent; i++)
    if (pending[i] != MPI_REQUEST_NULL) MPI_Request_free(&pending[i]);
  if (wild) end_some(100), MPI_Barrier(MPI_COMM_WORLD);
}

/* Matrices of 2 by 2, in the order of the ranks. */
static void multiply(void *left, void *both, int *count, MPI_Datatype *type) {
  int *a = left, *b = both;
  (void)type;
  for (int i = 0; i + 3 < *count; i += 4, a += 4, b += 4) {
    int made[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                   a[2] * b[1] + a[3] * b[3]};
    for (int j = 0; j < 4; j++) b[j] = made[j] & 0xff;
  }
}

static void collect(void) {
  part *of = &parts[draw(&plan, comms)];
  int kind = draw(&plan, 14), root_number = draw(&plan, RANKS), n = 4 * (1 + draw(&plan, draw(&plan, 5) ? 10 : 2000));
  int in_place = draw(&plan, 2), size = of->size[rank], me = of->place[rank], root = root_number % size;
  MPI_Op operations[] = {MPI_SUM, MPI_MAX, MPI_BXOR, product}, op = operations[draw(&plan, 4)];
  int *out = numbers(n * size, 7 * me + kind);
  kept *into = room(n * size);
  keep(out, n * size);
  memcpy(into->numbers, out, (size_t)(n * size) * sizeof *out);
  void *mine = in_place ? MPI_IN_PLACE : (void *)out;
  MPI_Comm comm = of->comm;
  MPI_Request *request = &into->request;
  switch (kind) {
  case 0:
    MPI_Bcast(into->numbers, n, MPI_INT, root, comm);
    break;
  case 1:
    MPI_Allreduce(mine, into->numbers, n, MPI_INT, op, comm);
    break;
  case 2:
    MPI_Allgather(mine, n, MPI_INT, into->numbers, n, MPI_INT, comm);
    break;
  case 3:
    MPI_Alltoall(mine, n, MPI_INT, into->numbers, n, MPI_INT, comm);
    break;
  case 4:
    MPI_Reduce(in_place && me == root ? MPI_IN_PLACE : out, into->numbers, n, MPI_INT, op, root, comm);
    break;
  case 5:
    MPI_Scan(mine, into->numbers, n, MPI_INT, op, comm);
    break;
  case 6:
    MPI_Gather(out, n / 2, types[1], into->numbers, n, MPI_INT, root, comm);
    break;
  case 7:
    MPI_Scatter(out, n, MPI_INT, into->numbers, n / 2, types[1], root, comm);
    break;
  case 8:
    MPI_Ibcast(into->numbers, n, MPI_INT, root, comm, request);
    break;
  case 9:
    MPI_Iallreduce(mine, into->numbers, n, MPI_INT, op, comm, request);
    break;
  case 10:
    MPI_Ialltoall(out, n / 2, types[1], into->numbers, n, MPI_INT, comm, request);
    break;
  case 11:
    MPI_Ireduce_scatter_block(mine, into->numbers, n, MPI_INT, op, comm, request);
    break;
  case 12:
    MPI_Ibarrier(comm, request);
    break;
  default:
    MPI_Exscan(out, into->numbers, n, MPI_INT, op, comm);
  }
  if (kind == 5 || kind == 4 || kind == 11) into->count = n;
  if (kind == 4 && me != root) into->count = 0;
}

/* A new communicator: a copy of all ranks in another order, or a division of them. */
static void divide(void) {
  if (comms == COMMS) return;
  part *of = &parts[comms++];
  int groups = 1 + draw(&plan, 3), keys[RANKS];
  for (int i = 0; i < ranks; i++) of->group[i] = draw(&plan, groups), keys[i] = draw(&plan, 5);
  for (int i = 0; i < ranks; i++) {
    of->place[i] = of->size[i] = 0;
    for (int j = 0; j < ranks; j++) {
      if (of->group[j] != of->group[i]) continue;
      of->size[i]++;
      of->place[i] += keys[j] < keys[i] || (keys[j] == keys[i] && j < i);
    }
  }
  MPI_Comm_split(MPI_COMM_WORLD, of->group[rank], keys[rank], &of->comm);
}

static void begin(void) {
  MPI_Datatype made;
  types[0] = MPI_INT;
  MPI_Type_vector(2, 1, 2, MPI_INT, &made);
  MPI_Type_create_resized(made, 0, 4 * sizeof(int), &types[1]);
  MPI_Type_indexed(2, (int[]){1, 2}, (int[]){3, 0}, MPI_INT, &types[2]);
  MPI_Type_create_subarray(2, (int[]){3, 4}, (int[]){3, 2}, (int[]){0, 1}, MPI_ORDER_C, MPI_INT, &types[3]);
  for (int i = 1; i < KINDS; i++) MPI_Type_commit(&types[i]);
  MPI_Op_create(multiply, 0, &product);
  parts[0].comm = MPI_COMM_WORLD;
  for (int i = 0; i < ranks; i++) parts[0].place[i] = i, parts[0].size[i] = ranks;
  comms = 1;
}

static uint64_t digest(void) {
  uint64_t sum = 14695981039346656037u;
  for (kept *one = first; one; one = one->next) {
    int count = 0;
    for (int i = 0; i < one->count; i++) sum = (sum ^ (uint64_t)(uint32_t)one->numbers[i]) * 1099511628211u;
    if (!one->has_status) continue;
    MPI_Get_elements(&one->status, MPI_INT, &count);
    sum = (sum ^ (uint64_t)(one->status.MPI_SOURCE * 1000003 + one->status.MPI_TAG * 101 + count)) * 1099511628211u;
  }
  return sum;
}

int main(int count, char **arguments) {
  uint64_t mine, all[RANKS];
  int phases;
  if (count < 3) return 2;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  plan = (uint64_t)atoll(arguments[1]) * 2 + 1, own = plan + (uint64_t)rank * 977, phases = atoi(arguments[2]);
  begin();
  for (int i = 0; i < phases; i++) {
    int what = draw(&plan, 10);
    if (what < 5)
      exchange();
    else if (what < 9)
      collect();
    else
      divide();
    end_some(30);
  }
  while (1) {
    int left = 0;
    for (kept *one = first; one; one = one->next) left += one->request != MPI_REQUEST_NULL;
    if (!left) break;
    end_some(100);
  }
  mine = digest();
  MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < ranks; i++) printf("rank %d: %016llx\n", i, (unsigned long long)all[i]);
  MPI_Finalize();
  return 0;
}
