/* Mainstay for C++17 on MPI. Licence: MIT OR Apache-2.0.
 *
 * Compiled by the user's own mpicxx, as mainstay_mpi.h is by mpicc. */
#ifndef MAINSTAY_MPI_HPP
#define MAINSTAY_MPI_HPP

#include "mainstay.hpp"
#include "mainstay_mpi.h"

namespace mainstay {

/* Opens the space in the directory `path` for the ranks of `comm`, which is duplicated. Collective. The
 * session ends before MPI_Finalize: by close(), or by the end of its scope. */
inline session open(MPI_Comm comm, const std::string &path, const mainstay_options &options = mainstay::options()) {
  mainstay_session *opened = nullptr;
  detail::check(mainstay_open_mpi(comm, detail::text(path), &options, &opened));
  return session(opened);
}

}  // namespace mainstay

#endif /* MAINSTAY_MPI_HPP */
