//! A copy of the database as it is at one moment, while the server goes on.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no database {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: io::Error },
    #[error("cannot copy {}: {reason}", path.display())]
    Copy { path: PathBuf, reason: rusqlite::Error },
}

/// Copies the database into a new file and returns its size. The file gets its name when it is complete and on the
/// disk.
pub fn backup(database: &Path, file: &Path) -> Result<u64, BackupError> {
    if !database.exists() {
        return Err(BackupError::Missing { path: database.to_owned() });
    }
    if file.exists() {
        return Err(BackupError::Exists { path: file.to_owned() });
    }
    let partial = file.with_added_extension("partial");
    let copied = copy(database, &partial)
        .and_then(|()| keep(&partial, file).map_err(|reason| BackupError::Write { path: file.to_owned(), reason }));
    if copied.is_err() {
        let _ = fs::remove_file(&partial);
    }
    copied
}

fn copy(database: &Path, partial: &Path) -> Result<(), BackupError> {
    // Left behind by a backup that was killed. `VACUUM INTO` refuses a file that is not empty.
    match fs::remove_file(partial) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
            return Err(BackupError::Write { path: partial.to_owned(), reason });
        }
        _ => {}
    }
    let unwritable = |reason| BackupError::Write { path: partial.to_owned(), reason };
    super::file::create_private(partial).map_err(unwritable)?;
    let failed = |reason| BackupError::Copy { path: database.to_owned(), reason };
    let connection = super::connect(database).map_err(failed)?;
    connection.execute("VACUUM INTO ?1", [partial.to_string_lossy()]).map_err(failed)?;
    Ok(())
}

fn keep(partial: &Path, file: &Path) -> io::Result<u64> {
    let written = File::open(partial)?;
    written.sync_all()?;
    fs::rename(partial, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(written.metadata()?.len())
}
