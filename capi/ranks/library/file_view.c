/* Views of files. Licence: MIT OR Apache-2.0. */
#include "file.h"

/* Bytes of a run that grew to its end; a new one begins where it does not follow. */
static void add_run(struct view *view, MPI_Count *room, MPI_Aint offset, MPI_Count bytes) {
  struct run *last = view->run_count ? &view->runs[view->run_count - 1] : NULL;
  if (bytes == 0) return;
  if (last && last->offset + last->bytes == offset) {
    last->bytes += bytes;
    return;
  }
  if (view->run_count == *room) {
    *room = *room ? 2 * *room : 8;
    view->runs = grow_memory(view->runs, (size_t)*room * sizeof *view->runs);
    last = view->run_count ? &view->runs[view->run_count - 1] : NULL;
  }
  view->runs[view->run_count++] = (struct run){offset, bytes, last ? last->before + last->bytes : 0};
}

static void add_runs(struct view *view, MPI_Count *room, const struct datatype *type, MPI_Aint offset,
                     MPI_Count count) {
  if (type->dense) {
    add_run(view, room, offset, count * type->size);
    return;
  }
  for (MPI_Count element = 0; element < count; element++, offset += type->extent)
    for (MPI_Count i = 0; i < type->part_count; i++) {
      const struct part *part = &type->parts[i];
      for (MPI_Count repeat = 0; repeat < part->repeats; repeat++)
        add_runs(view, room, part->of, offset + part->offset + repeat * part->stride, part->length);
    }
}

static void view_set(struct view *view, MPI_Offset displacement, struct datatype *etype, struct datatype *filetype,
                     const char *representation) {
  MPI_Count room = 0;
  view->displacement = displacement;
  view->etype = object_hold(etype);
  view->filetype = object_hold(filetype);
  view->external = strcmp(representation, "external32") == 0;
  strcpy(view->representation, representation);
  view->runs = NULL;
  view->run_count = 0;
  add_runs(view, &room, filetype, 0, 1);
}

void view_start(struct view *view) { view_set(view, 0, type_of(MPI_BYTE), type_of(MPI_BYTE), "native"); }

void view_release(struct view *view) {
  type_release(view->etype);
  type_release(view->filetype);
  free(view->runs);
}

/* The run that holds byte `rest` of an element. */
static const struct run *find_run(const struct view *view, MPI_Count rest) {
  MPI_Count low = 0, high = view->run_count - 1;
  while (low < high) {
    MPI_Count middle = (low + high + 1) / 2;
    if (view->runs[middle].before <= rest)
      low = middle;
    else
      high = middle - 1;
  }
  return &view->runs[low];
}

MPI_Count view_run(const struct view *view, MPI_Offset at, MPI_Count bytes, MPI_Offset *place) {
  const struct datatype *filetype = view->filetype;
  const struct run *run;
  MPI_Count rest, length;
  if (filetype->dense) {
    *place = view->displacement + at;
    return bytes;
  }
  rest = at % filetype->size;
  run = find_run(view, rest);
  *place = view->displacement + at / filetype->size * filetype->extent + run->offset + (rest - run->before);
  length = run->before + run->bytes - rest;
  return length < bytes ? length : bytes;
}

MPI_Offset view_bytes_before(const struct view *view, MPI_Offset end) {
  const struct datatype *filetype = view->filetype;
  MPI_Offset rest = end - view->displacement, found;
  if (rest <= 0 || filetype->size == 0 || filetype->extent <= 0) return 0;
  found = rest / filetype->extent * filetype->size;
  rest %= filetype->extent;
  for (MPI_Count i = 0; i < view->run_count && view->runs[i].offset < rest; i++) {
    MPI_Offset part = rest - view->runs[i].offset;
    found += part < view->runs[i].bytes ? part : view->runs[i].bytes;
  }
  return found;
}

/* The offsets of a view's types must not decrease, and none may lie before the view. Bytes that occur twice can be read
 * but not written. */
static int check_offsets(const struct datatype *type, bool writable) {
  struct view view = {.run_count = 0};
  MPI_Count room = 0;
  int error = MPI_SUCCESS;
  add_runs(&view, &room, type, 0, 1);
  for (MPI_Count i = 0; i < view.run_count && !error; i++) {
    const struct run *run = &view.runs[i], *last = run - 1;
    if (run->offset < 0) error = MPI_ERR_IO;
    if (i && run->offset < (writable ? last->offset + last->bytes : last->offset)) error = MPI_ERR_IO;
  }
  free(view.runs);
  return error;
}

static int check_view(struct file *file, MPI_Offset displacement, struct datatype *etype, struct datatype *filetype,
                      const char *representation) {
  if (!etype || !filetype || check_buffer(0, etype) || check_buffer(0, filetype)) return MPI_ERR_TYPE;
  if (displacement < 0 || file->mode & MPI_MODE_SEQUENTIAL) return MPI_ERR_ARG;
  if (etype->size == 0 || filetype->size == 0 || filetype->size % etype->size) return MPI_ERR_ARG;
  if (strcmp(representation, "native") && strcmp(representation, "internal") && strcmp(representation, "external32"))
    return MPI_ERR_UNSUPPORTED_DATAREP;
  if (etype->dense && filetype->dense) return MPI_SUCCESS;
  if (check_offsets(etype, !(file->mode & MPI_MODE_RDONLY))) return MPI_ERR_IO;
  return check_offsets(filetype, !(file->mode & MPI_MODE_RDONLY));
}

MPI(File_set_view)(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep,
                   MPI_Info info) {
  struct file *file = file_of(fh);
  struct view old;
  int error;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  error = check_view(file, disp, type_of(etype), type_of(filetype), datarep);
  if (error) return fail_file(file, error);
  old = file->view;
  view_set(&file->view, disp, type_of(etype), type_of(filetype), datarep);
  view_release(&old);
  file->position = 0;
  if (info != MPI_INFO_NULL) PMPI_File_set_info(fh, info);
  return MPI_SUCCESS;
}

MPI(File_get_view)(MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype, char *datarep) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  *disp = file->view.displacement;
  *etype = type_handle(object_hold(file->view.etype));
  *filetype = type_handle(object_hold(file->view.filetype));
  strcpy(datarep, file->view.representation);
  return MPI_SUCCESS;
}

MPI(File_get_byte_offset)(MPI_File fh, MPI_Offset offset, MPI_Offset *disp) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (offset < 0) return fail_file(file, MPI_ERR_ARG);
  view_run(&file->view, offset * file->view.etype->size, 1, disp);
  return MPI_SUCCESS;
}
