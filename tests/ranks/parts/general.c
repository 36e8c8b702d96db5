/* Infos, error handlers and classes, times, and facts about the job. */
#include "parts.h"

static void infos(void) {
  MPI_Info info, copy;
  char text[40], key[MPI_MAX_INFO_KEY + 1];
  int flag, count, length;
  MPI_Info_create(&info);
  MPI_Info_set(info, "one", "first");
  MPI_Info_set(info, "two", "second");
  MPI_Info_set(info, "one", "third");
  MPI_Info_get(info, "one", 39, text, &flag);
  CHECK(flag && !strcmp(text, "third"));
  MPI_Info_get(info, "none", 39, text, &flag);
  CHECK(!flag);
  MPI_Info_get_valuelen(info, "two", &length, &flag);
  CHECK(flag && length == 6);
  length = 4;
  MPI_Info_get_string(info, "two", &length, text, &flag);
  CHECK(flag && !strcmp(text, "sec") && length == 7);
  MPI_Info_get_nkeys(info, &count);
  CHECK(count == 2);
  MPI_Info_get_nthkey(info, 1, key);
  CHECK(!strcmp(key, "two"));
  MPI_Info_dup(info, &copy);
  MPI_Info_delete(info, "one");
  MPI_Info_get_nkeys(info, &count);
  CHECK(count == 1);
  MPI_Info_get_nkeys(copy, &count);
  CHECK(count == 2);
  MPI_Info_free(&info);
  MPI_Info_free(&copy);
  CHECK(info == MPI_INFO_NULL);
}

static int handled, handled_class;

static void handle(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  handled++;
  MPI_Error_class(*code, &handled_class);
}

static void errors(void) {
  MPI_Errhandler mine, got;
  MPI_Comm made;
  char text[MPI_MAX_ERROR_STRING];
  int length, class, code, wrong = 7;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Comm_create_errhandler(handle, &mine);
  MPI_Comm_set_errhandler(made, mine);
  MPI_Comm_get_errhandler(made, &got);
  CHECK(got == mine);
  MPI_Errhandler_free(&got);
  MPI_Send(&wrong, 1, MPI_INT, ranks + 3, 0, made);
  CHECK(handled == 1 && handled_class == MPI_ERR_RANK);
  MPI_Comm_call_errhandler(made, MPI_ERR_OTHER);
  CHECK(handled == 2 && handled_class == MPI_ERR_OTHER);
  MPI_Errhandler_free(&mine);
  CHECK(mine == MPI_ERRHANDLER_NULL);
  /* A copy has the same handler. */
  MPI_Comm copy;
  MPI_Comm_dup(made, &copy);
  MPI_Bcast(&wrong, 1, MPI_INT, ranks, copy);
  CHECK(handled == 3 && handled_class == MPI_ERR_ROOT);
  MPI_Comm_free(&copy);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Send(&wrong, 1, MPI_DATATYPE_NULL, 0, 0, made), &class);
  CHECK(class == MPI_ERR_TYPE);
  MPI_Error_string(MPI_ERR_TRUNCATE, text, &length);
  CHECK(length > 0 && length == (int)strlen(text));
  MPI_Add_error_class(&class);
  MPI_Add_error_code(class, &code);
  MPI_Add_error_string(code, "a mistake of the test");
  MPI_Error_string(code, text, &length);
  CHECK(!strcmp(text, "a mistake of the test"));
  int of;
  MPI_Error_class(code, &of);
  CHECK(of == class && class > MPI_ERR_LASTCODE);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS); /* it has a code */
  CHECK(MPI_Remove_error_code(code) != MPI_SUCCESS);   /* it has a text */
  CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS && MPI_Remove_error_code(code) == MPI_SUCCESS);
  CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_free(&made);
  handled = 0;
}

static void facts(void) {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length, flag, version, minor, level;
  double now = MPI_Wtime();
  void *memory;
  while (MPI_Wtime() - now < 1e-4) {
  }
  CHECK(MPI_Wtime() > now && MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
  MPI_Get_processor_name(name, &length);
  CHECK(length > 0 && length == (int)strlen(name));
  MPI_Get_version(&version, &minor);
  CHECK(version >= 3);
  MPI_Initialized(&flag);
  CHECK(flag);
  MPI_Finalized(&flag);
  CHECK(!flag);
  MPI_Query_thread(&level);
  CHECK(level == MPI_THREAD_SINGLE || level == MPI_THREAD_FUNNELED);
  MPI_Is_thread_main(&flag);
  CHECK(flag);
  MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory);
  memset(memory, 1, 1000);
  CHECK(MPI_Free_mem(memory) == MPI_SUCCESS);
  CHECK(MPI_Pcontrol(0) == MPI_SUCCESS);
}

static void fortran_types(void) {
  MPI_Info info;
  char text[8] = "";
  int flag;
  MPI_Abi_get_fortran_info(&info);
  MPI_Info_get(info, "mpi_real8_supported", 7, text, &flag);
  CHECK(flag && !strcmp(text, "true"));
  MPI_Info_free(&info);
}

void general(void) {
  infos();
  fortran_types();
  errors();
  facts();
}
