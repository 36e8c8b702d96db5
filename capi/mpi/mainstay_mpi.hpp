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

/* The program's communicator, as mainstay_mpi_comm has it: a new one after each recovery. */
inline MPI_Comm comm(const session &of) { return mainstay_mpi_comm(of.get()); }

/* Has a recovery interrupt whatever waits in a communicator that the program has made, as mainstay_mpi_adopt does. */
inline void adopt(const session &of, MPI_Comm comm) { detail::check(mainstay_mpi_adopt(of.get(), comm)); }

/* Whether a rank has failed, as far as this one knows: mainstay_mpi_has_failed. */
inline bool has_failed(const session &of) { return mainstay_mpi_has_failed(of.get()) != 0; }

/* Ends MPI, and after a recovery the process: `return mainstay::finalize(0);`. See mainstay_mpi_finalize. */
inline int finalize(int status) { return mainstay_mpi_finalize(status); }

}  // namespace mainstay

#endif /* MAINSTAY_MPI_HPP */
