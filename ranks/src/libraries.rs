//! The MPI libraries that a rank finds: Mainstay's, and no other.
//!
//! Mainstay's library is in `LD_LIBRARY_PATH`. The loader prefers an absolute path and an RPATH; mpi4py first tries an
//! absolute path beside its interpreter. A rank that opens the library of another MPI gets the error that it does not
//! exist, and looks further.

use std::path::Path;

const NAMES: [&str; 2] = ["libmpi.so", "libmpi_abi.so"];

/// Whether `file`, which a rank opened by `name`, is the library of another MPI.
pub(crate) fn is_another_mpi(name: &Path, file: &Path) -> bool {
    let is_mpi = name.file_name().is_some_and(|name| {
        NAMES.iter().any(|one| name.as_encoded_bytes().strip_prefix(one.as_bytes()).is_some_and(is_version))
    });
    is_mpi && !is_ours(file)
}

fn is_version(rest: &[u8]) -> bool {
    rest.iter().all(|byte| matches!(byte, b'.' | b'0'..=b'9'))
}

/// Mainstay has two libraries, in folders beside each other.
fn is_ours(file: &Path) -> bool {
    let Some(both) = file.parent().and_then(Path::parent) else { return false };
    both.join("mpich/libmpi.so.12").exists() && both.join("standard/libmpi_abi.so.1").exists()
}
