/* Arguments of collectives, and their end. Licence: MIT OR Apache-2.0. */
#include "collective.h"
#include "operation.h"

struct layout layout_list(const struct call *call, const void *data, const void *counts, const void *places,
                          MPI_Datatype datatype) {
  struct layout layout = layout_mixed(call, data, counts, places, NULL, call->wide);
  layout.type = type_of(datatype);
  return layout;
}

struct layout layout_mixed(const struct call *call, const void *data, const void *counts, const void *places,
                           const MPI_Datatype *types, bool wide_places) {
  return (struct layout){.data = (char *)data,
                         .types = types,
                         .counts = counts,
                         .places = places,
                         .wide_counts = call->wide,
                         .wide_places = wide_places};
}

int call_finish(const struct call *call, struct schedule *schedule, struct comm *comm) {
  if (call->form == FORM_BLOCKING) {
    int error = schedule_run(schedule);
    return error ? raise_error(comm, error, call->name) : MPI_SUCCESS;
  }
  *call->request = request_handle(schedule_request(schedule, call->form == FORM_PERSISTENT));
  return MPI_SUCCESS;
}

int check_call(const struct call *call, const struct comm *comm) {
  if (!comm) return MPI_ERR_COMM;
  return call->form == FORM_BLOCKING || call->request ? MPI_SUCCESS : MPI_ERR_ARG;
}

int check_root(const struct comm *comm, int root) {
  bool special = comm->remote && (root == MPI_ROOT || root == MPI_PROC_NULL);
  return special || (root >= 0 && root < parts_of(comm)) ? MPI_SUCCESS : MPI_ERR_ROOT;
}

int check_data(const void *data, MPI_Count count, const struct datatype *type) {
  int error = check_buffer(count, type);
  if (error) return error;
  bool missing = !data && count > 0 && type->size > 0 && type->object.predefined;
  return missing || (data == MPI_IN_PLACE && count > 0) ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

int check_layout(const struct layout *layout, int parts) {
  if (!layout->type && !layout->types) return MPI_ERR_TYPE;
  for (int part = 0; part < parts; part++) {
    const struct datatype *type = layout->type ? layout->type : type_of(layout->types[part]);
    MPI_Count count = layout_count(layout, part);
    /* Places in bytes may be addresses from MPI_BOTTOM on. */
    bool absolute = layout->types && layout->data == MPI_BOTTOM;
    int error = absolute ? check_buffer(count, type) : check_data(layout->data, count, type);
    if (error) return error;
    if (!layout->counts) break; /* all parts are alike */
  }
  return MPI_SUCCESS;
}

int check_reduction(const void *from, const void *to, MPI_Count count, const struct datatype *type,
                    const struct operation *operation) {
  int error = from == MPI_IN_PLACE ? check_buffer(count, type) : check_data(from, count, type);
  if (!error) error = check_data(to, count, type);
  if (!error) error = operation_check(operation, type);
  if (!error && count > 0 && from == to && type->object.predefined) error = MPI_ERR_BUFFER;
  return error;
}
