//! The MPI libraries that a rank finds: Mainstay's, and no other.
//!
//! An absolute path, or an RPATH, comes before `LD_LIBRARY_PATH`, where Mainstay's library is. mpi4py looks for the library
//! beside its interpreter by an absolute path. The rank gets the answer that no such file exists, and looks further.

use std::path::Path;

const NAMES: [&str; 2] = ["libmpi.so", "libmpi_abi.so"];

/// Whether a file that a rank opened by this name is the library of another MPI.
pub(super) fn is_another_mpi(name: &Path, file: &Path) -> bool {
    let is_mpi = name.file_name().is_some_and(|name| {
        NAMES.iter().any(|one| name.as_encoded_bytes().strip_prefix(one.as_bytes()).is_some_and(is_version))
    });
    is_mpi && !is_ours(file)
}

fn is_version(rest: &[u8]) -> bool {
    rest.iter().all(|byte| matches!(byte, b'.' | b'0'..=b'9'))
}

/// The folder of each of our libraries lies beside that of the other.
fn is_ours(file: &Path) -> bool {
    let Some(both) = file.parent().and_then(Path::parent) else { return false };
    both.join("mpich/libmpi.so.12").exists() && both.join("standard/libmpi_abi.so.1").exists()
}
