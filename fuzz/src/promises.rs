//! Promises that targets check.

use mainstay_engine::{ErrorKind, Result};

/// Bytes that can be read are written, and are then read again as the same.
pub(crate) fn comes_back(bytes: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(written) = read(bytes) {
        assert_eq!(read(&written), Some(written), "it changes when it is written and read again");
    }
}

/// The value of `result`. An error is right unless it is internal: bytes cannot be a fault of Mainstay.
pub(crate) fn told<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|error| assert_ne!(error.kind(), ErrorKind::Internal, "{error}")).ok()
}
