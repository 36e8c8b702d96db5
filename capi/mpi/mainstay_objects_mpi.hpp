/* Objects that move, for C++17 on MPI. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_OBJECTS_MPI_HPP
#define MAINSTAY_OBJECTS_MPI_HPP

#include "mainstay_mpi.hpp"
#include "mainstay_objects.hpp"
#include "mainstay_objects_mpi.h"

namespace mainstay {

struct objects_options : mainstay_objects_options {
  objects_options() noexcept : mainstay_objects_options MAINSTAY_OBJECTS_OPTIONS_INIT {}
};

/* Opens the objects of a job, for a session of mainstay::open. */
inline objects open_objects(session &of, const mainstay_objects_options &options = objects_options()) {
  mainstay_objects *opened = nullptr;
  detail::check(mainstay_objects_open_mpi(of.get(), &options, &opened));
  return objects(opened);
}

} // namespace mainstay

#endif /* MAINSTAY_OBJECTS_MPI_HPP */
