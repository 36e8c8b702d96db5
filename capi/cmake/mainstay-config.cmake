# Mainstay for CMake, installed in PREFIX/lib/cmake/mainstay; it finds PREFIX from its own path.
#
#   find_package(mainstay REQUIRED COMPONENTS mpi)
#   target_link_libraries(app PRIVATE mainstay::mpi)
#
#   mainstay::mainstay  the library, for C and C++
#   mainstay::static    the same as a static library, if it is installed
#   mainstay::mpi       mainstay::mainstay with MPI, if CMake finds one for C or C++
#   mainstay::fortran   mainstay::mpi with the Fortran modules, compiled into each target that links it,
#                       if the project has C and Fortran
cmake_minimum_required(VERSION 3.15)

get_filename_component(_mainstay_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
set(_mainstay_lib "${_mainstay_prefix}/lib")
set(mainstay_mainstay_FOUND TRUE)

if(NOT TARGET mainstay::mainstay)
  add_library(mainstay::mainstay SHARED IMPORTED)
  set_target_properties(mainstay::mainstay PROPERTIES
    IMPORTED_LOCATION "${_mainstay_lib}/libmainstay.so.0"
    IMPORTED_SONAME libmainstay.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${_mainstay_prefix}/include")
endif()

if(EXISTS "${_mainstay_lib}/libmainstay.a")
  set(mainstay_static_FOUND TRUE)
  if(NOT TARGET mainstay::static)
    add_library(mainstay::static STATIC IMPORTED)
    set_target_properties(mainstay::static PROPERTIES
      IMPORTED_LOCATION "${_mainstay_lib}/libmainstay.a"
      INTERFACE_INCLUDE_DIRECTORIES "${_mainstay_prefix}/include"
      INTERFACE_LINK_LIBRARIES "gcc_s;util;rt;pthread;m;dl;c")
  endif()
endif()

# The project's language that selects the MPI: the language of its sources is unknown here.
get_property(_mainstay_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
foreach(_mainstay_language C CXX)
  if(_mainstay_language IN_LIST _mainstay_languages AND NOT TARGET MPI::MPI_${_mainstay_language})
    find_package(MPI QUIET COMPONENTS ${_mainstay_language})
  endif()
endforeach()
set(_mainstay_mpi)
foreach(_mainstay_language C CXX)
  if(TARGET MPI::MPI_${_mainstay_language})
    list(APPEND _mainstay_mpi MPI::MPI_${_mainstay_language})
  endif()
endforeach()
if(_mainstay_mpi)
  set(mainstay_mpi_FOUND TRUE)
  if(NOT TARGET mainstay::mpi)
    add_library(mainstay::mpi INTERFACE IMPORTED)
    set_target_properties(mainstay::mpi PROPERTIES
      INTERFACE_LINK_LIBRARIES "mainstay::mainstay;${_mainstay_mpi}")
  endif()
endif()

set(_mainstay_sources "${_mainstay_prefix}/share/mainstay/fortran")
if(TARGET MPI::MPI_C AND "Fortran" IN_LIST _mainstay_languages AND EXISTS "${_mainstay_sources}/mainstay.f90")
  set(mainstay_fortran_FOUND TRUE)
  if(NOT TARGET mainstay::fortran)
    add_library(mainstay::fortran INTERFACE IMPORTED)
    set_target_properties(mainstay::fortran PROPERTIES
      INTERFACE_SOURCES
        "${_mainstay_sources}/mainstay.f90;${_mainstay_sources}/mainstay_reader.f90;${_mainstay_sources}/mainstay_fortran.c"
      INTERFACE_LINK_LIBRARIES mainstay::mpi)
  endif()
endif()

# Missing components of COMPONENTS.
foreach(_mainstay_component IN LISTS mainstay_FIND_COMPONENTS)
  if(mainstay_FIND_REQUIRED_${_mainstay_component} AND NOT mainstay_${_mainstay_component}_FOUND)
    set(mainstay_FOUND FALSE)
    string(APPEND mainstay_NOT_FOUND_MESSAGE "mainstay has no ${_mainstay_component} here: of mainstay, static, "
      "mpi (CMake finds an MPI: name its compilers by MPI_C_COMPILER and MPI_CXX_COMPILER) and "
      "fortran (as mpi, and the project has the languages C and Fortran). ")
  endif()
endforeach()
