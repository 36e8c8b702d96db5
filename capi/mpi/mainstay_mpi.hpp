/* Mainstay for C++17 on MPI. Licence: MIT OR Apache-2.0.
 *
 * Your own mpicxx compiles this header, as mpicc compiles mainstay_mpi.h. */
#ifndef MAINSTAY_MPI_HPP
#define MAINSTAY_MPI_HPP

#include "mainstay.hpp"
#include "mainstay_mpi.h"

namespace mainstay {

/* Opens the space in the directory `path` for the ranks of `comm`, which is duplicated. Collective. The session must
 * end before MPI_Finalize: by close(), or by the end of its scope. */
inline session open(MPI_Comm comm, const std::string &path, const mainstay_options &options = mainstay::options()) {
  mainstay_session *opened = nullptr;
  detail::check(mainstay_open_mpi(comm, detail::text(path), &options, &opened));
  return session(opened);
}

/* The program's communicator, like mainstay_mpi_comm: a new one after each recovery. */
inline MPI_Comm comm(const session &of) { return mainstay_mpi_comm(of.get()); }

/* Lets a recovery interrupt every wait in a communicator of the program, like mainstay_mpi_adopt. */
inline void adopt(const session &of, MPI_Comm comm) { detail::check(mainstay_mpi_adopt(of.get(), comm)); }

/* Whether a rank has failed, as far as this one knows: see mainstay_mpi_has_failed. */
inline bool has_failed(const session &of) { return mainstay_mpi_has_failed(of.get()) != 0; }

/* Ends MPI, and after a recovery the process: `return mainstay::finalize(0);`. See mainstay_mpi_finalize. */
inline int finalize(int status) { return mainstay_mpi_finalize(status); }

} // namespace mainstay

#endif /* MAINSTAY_MPI_HPP */
