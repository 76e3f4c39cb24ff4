//! Which file is at the database's path. An open connection follows its file wherever that is moved. Only a look at the
//! path shows that the file has gone, or that another one has taken its place.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;

use crate::time::clock::Stopwatch;

/// Device and inode. No other file gets the same ones while a connection holds this file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId(u64, u64);

pub fn id(path: &Path) -> Option<FileId> {
    let metadata = fs::metadata(path).ok()?;
    Some(FileId(metadata.dev(), metadata.ino()))
}

/// Creates an empty file that nobody else may read, for SQLite to fill: it holds what only owners and admins may see.
/// SQLite gives its write-ahead log the same permissions. An existing file is left as it is.
pub fn create_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Tells connections to the file at the path from those to a file that was there before.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    seen: Mutex<(Option<FileId>, Stopwatch)>,
}

impl Watch {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: Mutex::new((id(path), Stopwatch::start())) }
    }

    /// Returns whether a connection of this age was opened after the file was last seen to change.
    pub fn is_current(&self, age: Duration) -> bool {
        let found = id(&self.path);
        let mut seen = self.seen.lock();
        if seen.0 != found {
            *seen = (found, Stopwatch::start());
        }
        found.is_some() && age <= seen.1.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_current_until_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "").unwrap();
        fs::write(&other, "").unwrap();
        let watch = Watch::new(&path);
        assert!(watch.is_current(Duration::ZERO));
        fs::rename(&other, &path).unwrap();
        assert!(!watch.is_current(Duration::from_hours(1)));
        assert!(watch.is_current(Duration::ZERO));
        fs::remove_file(&path).unwrap();
        assert!(!watch.is_current(Duration::ZERO));
    }
}
