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

/* The ranks of the session by their numbers in it: a new communicator after each recovery. */
inline MPI_Comm comm(const session &session) { return mainstay_mpi_comm(session.get()); }

/* Has a communicator that the program has made of its own come out of what it waits in when ranks fail. */
inline void adopt(const session &session, MPI_Comm comm) { detail::check(mainstay_mpi_adopt(session.get(), comm)); }

}  // namespace mainstay

#endif /* MAINSTAY_MPI_HPP */
