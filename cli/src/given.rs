//! Text files that the user names or pipes in.

use std::{fs::File, io::Read, path::Path};

/// The text of the file, of at most `most` bytes. An error gives the reason that it is unreadable.
pub fn text_of(path: &Path, most: u64) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(most + 1).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.len() as u64 > most {
        return Err(format!("it is longer than {most} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_such_a_file_can_have() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(text_of(file.path(), 5).unwrap(), "12345");
        assert_eq!(text_of(file.path(), 4).unwrap_err(), "it is longer than 4 bytes");
        assert!(text_of(Path::new("/dev/zero"), 1000).is_err());
    }
}
