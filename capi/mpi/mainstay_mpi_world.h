/* Changes of the world: removes the dead, and fills their places with spares and started processes.
 * Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay_mpi_recovery.h. */
#ifndef MAINSTAY_MPI_WORLD_H
#define MAINSTAY_MPI_WORLD_H

#include "mainstay_mpi_agree.h"

/* Whether this rank is the first of the world on its machine. */
MAINSTAY_SHIM int mainstay_mpi_is_first(const mainstay_mpi_job *job) {
  int i;
  for (i = 0; i < job->rank; i++)
    if (job->processes[i].process.host == job->processes[job->rank].process.host) return 0;
  return 1;
}

/* Ends processes on this machine that were started for this job and did not join it in time. */
MAINSTAY_SHIM void mainstay_mpi_end_late(const mainstay_mpi_job *job) {
  mainstay_process *kept;
  int i;
  if (!job->launches || !mainstay_mpi_is_first(job)) return;
  kept = (mainstay_process *)malloc((size_t)job->size * sizeof *kept);
  for (i = 0; kept && i < job->size; i++) kept[i] = job->processes[i].process;
  if (kept) mainstay_process_end_siblings(job->mark, kept, (size_t)job->size);
  free(kept);
}

/* Ends processes of `dead` that hang on this machine, if this rank is the first one left there. A process that the
 * others count as failed must not wake up, and it holds locks. */
MAINSTAY_SHIM void mainstay_mpi_end(const mainstay_mpi_job *job, const mainstay_mpi_process *dead, int count) {
  int i;
  if (!mainstay_mpi_is_first(job)) return;
  for (i = 0; i < count; i++) mainstay_process_end(&dead[i].process);
}

/* Waits for a collective operation of the world. In Open MPI 5.0.11 one may wait forever for a rank that failed just
 * before it began; so a rank that waits for long looks for failed ranks, and then frees all from the operation. */
MAINSTAY_SHIM int mainstay_mpi_await_all(MPI_Comm world, MPI_Request *request) {
#ifdef MAINSTAY_MPI_SURVIVES
  const double look_s = 0.5;
  MPI_Group dead;
  int code, count = 0;
  while ((code = mainstay_mpi_await_for(request, MPI_STATUS_IGNORE, 500e-6, look_s)) == MAINSTAY_MPI_NOT_YET)
    if (mainstay_mpi_survives() && MPIX_Comm_get_failed(world, &dead) == MPI_SUCCESS) {
      MPI_Group_size(dead, &count);
      MPI_Group_free(&dead);
      if (count) mainstay_mpi_revoke(world);
    }
  return code;
#else
  (void)world;
  return MPI_Wait(request, MPI_STATUS_IGNORE);
#endif
}

/* All processes exchange their identities. Collective over the world. */
MAINSTAY_SHIM int mainstay_mpi_introduce(mainstay_mpi_job *job) {
  mainstay_mpi_process mine = job->processes[job->rank];
  MPI_Request request;
  int code;
  mainstay_process_here(&mine.process);
  code = MPI_Iallgather(&mine, 4, MPI_UINT64_T, job->processes, 4, MPI_UINT64_T, job->world, &request);
  return code == MPI_SUCCESS ? mainstay_mpi_await_all(job->world, &request) : code;
}

#ifdef MAINSTAY_MPI_SURVIVES
static const char mainstay_mpi_regrouping[] = "making a communicator without the ranks that have failed";

/* A communicator of the surviving ranks of `comm`. All of them are there by then, and it takes milliseconds. If one
 * were deaf (see mainstay_mpi_ears), the others would wait in it forever. */
MAINSTAY_SHIM int mainstay_mpi_shrunk(MPI_Comm comm, MPI_Comm *left) {
  mainstay_watch *watch = mainstay_process_watch(MAINSTAY_MPI_REGROUPING_S_MAX, mainstay_mpi_regrouping);
  const int code = MPIX_Comm_shrink(comm, left);
  mainstay_process_unwatch(watch);
  return code;
}

/* Replaces the world by one of its surviving ranks, which all of them have. */
MAINSTAY_SHIM int mainstay_mpi_shrink_world(mainstay_mpi_job *job) {
  MPI_Comm left, before = job->world;
  const int code = mainstay_mpi_shrunk(before, &left);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
  job->world = left;
  job->agreements = 0;
  mainstay_mpi_all(job, 1); /* the next step notices another failure */
  MPI_Comm_free(&before);
  return MPI_SUCCESS;
}

/* Removes the dead from the world, and ends those that hang. */
MAINSTAY_SHIM int mainstay_mpi_leave_out(mainstay_mpi_job *job, int *lost) {
  const int size = job->size;
  mainstay_mpi_process *dead = (mainstay_mpi_process *)malloc(2 * (size_t)size * sizeof *dead), *left = dead + size;
  int *ranks = (int *)malloc(2 * (size_t)size * sizeof *ranks), *before = ranks + size;
  MPI_Group old_group, new_group;
  int code = dead && ranks ? MPI_Comm_group(job->world, &old_group) : MPI_ERR_NO_MEM, i, count = 0, known = 0;
  *lost = 0;
  if (code == MPI_SUCCESS) {
    /* Twice, to give the world a lower number in Open MPI 5.0.11 than the communicators made from it. Open MPI never
     * makes a communicator out of one with a higher number than the last one with which it failed. */
    code = mainstay_mpi_shrink_world(job);
    if (code == MPI_SUCCESS) code = mainstay_mpi_shrink_world(job);
  }
  if (code == MPI_SUCCESS) {
    MPI_Comm_size(job->world, &count);
    MPI_Comm_rank(job->world, &job->rank);
    for (i = 0; i < count; i++) ranks[i] = i;
    MPI_Comm_group(job->world, &new_group);
    MPI_Group_translate_ranks(new_group, count, ranks, old_group, before);
    MPI_Group_free(&old_group);
    MPI_Group_free(&new_group);
    for (i = 0; i < count; i++) {
      left[i] = job->processes[before[i]];
      job->processes[before[i]].process.pid = 0;
    }
    /* A started process that failed before it had identified itself cannot be ended. */
    *lost = size - count;
    for (i = 0; i < size; i++)
      if (job->processes[i].process.pid) dead[known++] = job->processes[i];
    memcpy(job->processes, left, (size_t)count * sizeof *left);
    job->size = count;
    mainstay_mpi_end(job, dead, known);
  }
  free(dead);
  free(ranks);
  return code;
}

/* By place: the rank of the world that has it; below 0: none. The caller frees it; NULL: no memory. */
MAINSTAY_SHIM int *mainstay_mpi_holders(const mainstay_mpi_job *job) {
  int *holders = (int *)malloc((size_t)job->workers * sizeof *holders), i;
  for (i = 0; holders && i < job->workers; i++) holders[i] = -1;
  for (i = 0; holders && i < job->size; i++)
    if (job->processes[i].place >= 0) holders[job->processes[i].place] = i;
  return holders;
}

/* Spares take the places of the dead, as far as there are spares; `empty` receives the number of places left. With
 * shrink, the surviving ranks close up, in their old order, unless the state needs the old number of ranks. */
MAINSTAY_SHIM int mainstay_mpi_fill(mainstay_mpi_job *job, int *empty) {
  int *holders = mainstay_mpi_holders(job), place, spare = 0, next = 0;
  *empty = 0;
  if (!holders) return MPI_ERR_NO_MEM;
  for (place = 0; place < job->workers; place++) {
    if (holders[place] >= 0) continue;
    while (spare < job->size && job->processes[spare].place >= 0) spare++;
    if (spare < job->size)
      job->processes[holders[place] = spare].place = place;
    else
      ++*empty;
  }
  if (*empty && job->recovery == MAINSTAY_RECOVERY_SHRINK && job->divided != MAINSTAY_DIVIDED_BY_RANKS) {
    for (place = 0; place < job->workers; place++)
      if (holders[place] >= 0) job->processes[holders[place]].place = next++;
    job->workers = next;
    *empty = 0;
  }
  free(holders);
  return 0;
}

/* Makes one world of the two sides of `between`, the new processes after the others. */
MAINSTAY_SHIM int mainstay_mpi_merge(MPI_Comm *between, int is_new, MPI_Comm *world) {
  int code;
  MPI_Comm_set_errhandler(*between, MPI_ERRORS_RETURN);
  code = MPI_Intercomm_merge(*between, is_new, world);
  if (code == MPI_SUCCESS)
    MPI_Comm_set_errhandler(*world, MPI_ERRORS_RETURN);
  else
    *world = MPI_COMM_NULL;
  MPI_Comm_free(between);
  return code;
}

/* Limit of failed attempts to start processes in one recovery. */
enum { MAINSTAY_MPI_STARTS_MAX = 3 };

/* The message by which a started process reports that it has reached its opening. */
enum { MAINSTAY_MPI_HAS_COME = 1 };

/* Waits until all started processes have reached their opening; an error if one of them ends before. The world waits
 * for this rank outside of MPI's joint operations: in Open MPI 5.0.11 no rank returns from those. */
MAINSTAY_SHIM int mainstay_mpi_await_started(MPI_Comm started, int count, const mainstay_launch *start) {
  const double look_s = 50e-3;
  int *word = (int *)malloc(sizeof *word), rank, code = word ? MPI_SUCCESS : MPI_ERR_NO_MEM;
  for (rank = 0; code == MPI_SUCCESS && rank < count; rank++) {
    MPI_Request request;
    code = MPI_Irecv(word, 1, MPI_INT, rank, MAINSTAY_MPI_HAS_COME, started, &request);
    if (code != MPI_SUCCESS) break;
    while ((code = mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, 500e-6, look_s)) == MAINSTAY_MPI_NOT_YET)
      if (mainstay_launch_has_lost(start)) return MPI_ERR_SPAWN; /* the handle stays MPI's */
  }
  free(word);
  return code;
}

/* The first rank of the world sends `count` numbers to all others. */
MAINSTAY_SHIM int mainstay_mpi_announce(MPI_Comm world, void *numbers, int count) {
  MPI_Request request;
  const int code = MPI_Ibcast(numbers, count, MPI_UINT64_T, 0, world, &request);
  return code == MPI_SUCCESS ? mainstay_mpi_await_all(world, &request) : code;
}

/* The first rank of the world starts processes, and makes the port at which they meet the world. They take some
 * seconds, in which any other rank may fail, and each of them. */
MAINSTAY_SHIM int mainstay_mpi_launch(const mainstay_mpi_job *job, int count, MPI_Comm *started, char *port) {
  mainstay_launch *start = mainstay_launch_begin();
  const char *const *command = mainstay_launch_command(start);
  char folder[4096] = "";
  MPI_Info info = MPI_INFO_NULL;
  MPI_Errhandler theirs;
  int code;
  if (!command || !getcwd(folder, sizeof folder)) {
    mainstay_launch_end(start);
    return MPI_ERR_SPAWN;
  }
  mainstay_mpi_hush(MPI_COMM_SELF, &theirs);
  MPI_Info_create(&info);
  MPI_Info_set(info, "wdir", folder);
  MPI_Info_set(info, "map_by", ":OVERSUBSCRIBE");
  MPI_Info_set(info, "PMIX_ENVAR", job->mark);
  /* MPI declares these arguments as mutable, but does not change them. */
  code = MPI_Comm_spawn((char *)(uintptr_t)command[0], (char **)(uintptr_t)(command + 1), count, info, 0, MPI_COMM_SELF,
                        started, MPI_ERRCODES_IGNORE);
  mainstay_launch_is_through(start);
  MPI_Info_free(&info);
  if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(*started, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = mainstay_mpi_await_started(*started, count, start);
  mainstay_launch_end(start);
  if (code == MPI_SUCCESS) code = MPI_Open_port(MPI_INFO_NULL, port);
  mainstay_mpi_unhush(MPI_COMM_SELF, &theirs);
  return code;
}

/* A start takes a second or two, and longer if the program is on a slow file system. */
enum { MAINSTAY_MPI_LAUNCHING_S_MAX = 120, MAINSTAY_MPI_MEETING_S_MAX = 60 };
static const char mainstay_mpi_launching[] = "starting processes in the places of others";
static const char mainstay_mpi_meeting[] = "joining ranks with those that were started in the places of others";

/* Started processes take the empty places. Collective over the world, which they join. */
MAINSTAY_SHIM int mainstay_mpi_spawn(mainstay_mpi_job *job, int empty) {
  MPI_Comm started = MPI_COMM_NULL, between = MPI_COMM_NULL, world = MPI_COMM_NULL;
  char port[MPI_MAX_PORT_NAME] = "";
  uint64_t told[4];
  int code, place, is_launched, *holders;
  mainstay_watch *watch;
  job->launches++;
  /* With a broken mpiexec, MPI_Comm_spawn waits forever, and would on every rank that tried next. */
  watch = mainstay_process_watch(MAINSTAY_MPI_LAUNCHING_S_MAX, mainstay_mpi_launching);
  code = job->rank == 0 ? mainstay_mpi_launch(job, empty, &started, port) : MPI_SUCCESS;
  /* In Open MPI 5.0.11, a rank that fails while the two sides meet can leave the others waiting forever. Meeting is
   * short, and no rank begins it before all have come. */
  is_launched = mainstay_mpi_all(job, code == MPI_SUCCESS);
  mainstay_process_unwatch(watch);
  if (!is_launched) {
    mainstay_mpi_free(&started);
    return MPI_ERR_SPAWN;
  }
  watch = mainstay_process_watch(MAINSTAY_MPI_MEETING_S_MAX, mainstay_mpi_meeting);
  for (place = 0; job->rank == 0 && place < empty; place++) MPI_Send(port, sizeof port, MPI_CHAR, place, 0, started);
  code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, job->world, &between);
  if (code == MPI_SUCCESS) code = mainstay_mpi_merge(&between, 0, &world);
  if (job->rank == 0) MPI_Close_port(port);
  mainstay_process_unwatch(watch);
  code = mainstay_mpi_agreed(job, code);
  mainstay_mpi_free(&started);
  if (code != MPI_SUCCESS) {
    mainstay_mpi_revoke(world);
    mainstay_mpi_free(&world);
    return code;
  }
  holders = mainstay_mpi_holders(job);
  for (place = 0; holders && place < job->workers; place++)
    if (holders[place] < 0) {
      /* The array has room for these processes, because no spare is left. */
      memset(&job->processes[job->size], 0, sizeof *job->processes);
      job->processes[job->size++].place = place;
    }
  MPI_Comm_free(&job->world);
  job->world = world;
  job->agreements = 0;
  told[0] = job->recovery, told[1] = (uint64_t)job->workers, told[2] = (uint64_t)job->size, told[3] = job->divided;
  code = holders ? mainstay_mpi_announce(world, told, 4) : MPI_ERR_NO_MEM;
  free(holders);
  if (code == MPI_SUCCESS) code = mainstay_mpi_announce(world, job->processes, 4 * job->size);
  if (code == MPI_SUCCESS) code = mainstay_mpi_introduce(job);
  return mainstay_mpi_agreed(job, code);
}

/* This process was started to take a place: joins the world. An error concerns no other process. */
MAINSTAY_SHIM int mainstay_mpi_join(mainstay_mpi_job *job, MPI_Comm parent) {
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Request request;
  MPI_Errhandler theirs;
  const double limit_s = MAINSTAY_MPI_LAUNCHING_S_MAX; /* the message is sent when all have come */
  static const int word = 0;
  mainstay_watch *watch;
  char port[MPI_MAX_PORT_NAME] = "";
  uint64_t told[4] = {0, 0, 0, 0};
  int code;
  mainstay_mpi_post(&word, 1, MPI_INT, 0, MAINSTAY_MPI_HAS_COME, parent);
  code = MPI_Irecv(port, sizeof port, MPI_CHAR, 0, 0, parent, &request);
  if (code == MPI_SUCCESS) code = mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, 500e-6, limit_s);
  watch = mainstay_process_watch(MAINSTAY_MPI_MEETING_S_MAX, mainstay_mpi_meeting);
  mainstay_mpi_hush(MPI_COMM_WORLD, &theirs);
  if (code == MPI_SUCCESS) code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
  if (code == MPI_SUCCESS) code = mainstay_mpi_merge(&between, 1, &job->world);
  mainstay_mpi_unhush(MPI_COMM_WORLD, &theirs);
  mainstay_process_unwatch(watch);
  if (code == MPI_SUCCESS) code = mainstay_mpi_announce(job->world, told, 4);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_rank(job->world, &job->rank);
  job->recovery = (uint32_t)told[0], job->divided = (uint32_t)told[3], job->workers = (int)told[1],
  job->size = (int)told[2];
  job->processes = (mainstay_mpi_process *)calloc((size_t)job->workers, sizeof *job->processes);
  if (!job->processes) return MPI_ERR_NO_MEM;
  code = mainstay_mpi_announce(job->world, job->processes, 4 * job->size);
  if (code == MPI_SUCCESS) code = mainstay_mpi_introduce(job);
  return mainstay_mpi_agreed(job, code);
}
#endif

#endif /* MAINSTAY_MPI_WORLD_H */
