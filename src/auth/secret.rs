//! The HS256 secret: given in the settings, or made at the first start and kept beside the database.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

use crate::settings::{Auth, DatabaseUrl};

/// The HS256 secret. A self-made one is known to this server alone, so the server may print tokens signed with it.
#[derive(Clone)]
pub struct Secret {
    pub bytes: Vec<u8>,
    pub self_made: bool,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("self_made", &self.self_made).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("cannot read the secret {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("cannot keep a secret in {}: {reason}", path.display())]
    NotKept { path: PathBuf, reason: String },
    #[error("a database that several servers share needs `auth.secret`, `auth.secret_file` or `auth.jwks_file`")]
    Missing,
    #[error("the secret in {} must be at least 32 bytes", path.display())]
    TooShort { path: PathBuf },
}

/// Returns the secret of the settings, or else the one beside the SQLite database, which is made if it is missing.
/// Returns `None` if the settings name a JWKS file only. Fails on PostgreSQL if the settings name nothing: its servers
/// must share a secret.
pub fn find_or_make(auth: &Auth, database: &DatabaseUrl) -> Result<Option<Secret>, SecretError> {
    if auth.secret.is_none() && auth.secret_file.is_none() && auth.jwks_file.is_none() {
        let DatabaseUrl::Sqlite(database) = database else { return Err(SecretError::Missing) };
        make_once(&database.with_extension("secret"))?;
    }
    find(auth, database)
}

/// As [`find_or_make`], but makes nothing: `None` also if there is no secret yet.
pub fn find(auth: &Auth, database: &DatabaseUrl) -> Result<Option<Secret>, SecretError> {
    if let Some(secret) = &auth.secret {
        return Ok(Some(Secret { bytes: secret.clone().into_bytes(), self_made: false }));
    }
    if let Some(path) = &auth.secret_file {
        return Ok(Some(Secret { bytes: read(path)?, self_made: false }));
    }
    if auth.jwks_file.is_some() {
        return Ok(None);
    }
    let DatabaseUrl::Sqlite(database) = database else { return Err(SecretError::Missing) };
    let path = database.with_extension("secret");
    if path.exists() { Ok(Some(Secret { bytes: read(&path)?, self_made: true })) } else { Ok(None) }
}

fn read(path: &Path) -> Result<Vec<u8>, SecretError> {
    let text = fs::read_to_string(path)
        .map_err(|error| SecretError::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
    let secret = text.trim_end().as_bytes().to_vec();
    if secret.len() < 32 { Err(SecretError::TooShort { path: path.to_owned() }) } else { Ok(secret) }
}

fn make_once(path: &Path) -> Result<(), SecretError> {
    let not_kept = |reason: String| SecretError::NotKept { path: path.to_owned(), reason };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| not_kept(error.to_string()))?;
    }
    // An existing secret is never overwritten: tokens in use are signed with it.
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(not_kept(error.to_string())),
    };
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| not_kept(error.to_string()))?;
    let text = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    writeln!(file, "{text}").and_then(|()| file.sync_all()).map_err(|error| not_kept(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NONE: Auth = Auth { secret: None, secret_file: None, jwks_file: None };

    #[test]
    fn the_first_start_makes_a_secret_that_later_starts_find() {
        let folder = tempfile::tempdir().unwrap();
        let database = DatabaseUrl::Sqlite(folder.path().join("new/doclock.db"));
        assert!(find(&NONE, &database).unwrap().is_none());
        assert!(!folder.path().join("new").exists(), "a search makes nothing");
        let made = find_or_make(&NONE, &database).unwrap().unwrap();
        let found = find(&NONE, &database).unwrap().unwrap();
        assert!(made.self_made && found.self_made);
        assert_eq!(made.bytes, found.bytes);
        assert!(made.bytes.len() >= 32);
        let permissions = fs::metadata(folder.path().join("new/doclock.secret")).unwrap().permissions().mode();
        assert_eq!(permissions & 0o777, 0o600);
    }

    #[test]
    fn on_postgresql_a_missing_secret_stops_the_start() {
        let database = DatabaseUrl::Postgres("postgres://localhost/doclock".to_owned());
        assert!(matches!(find_or_make(&NONE, &database), Err(SecretError::Missing)));
    }

    #[test]
    fn a_given_secret_is_not_self_made_and_a_short_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "short\n").unwrap();
        let given = Auth { secret_file: Some(file.clone()), ..NONE };
        assert!(matches!(find_or_make(&given, &DatabaseUrl::Sqlite(file.clone())), Err(SecretError::TooShort { .. })));
        fs::write(&file, format!("{}\n", "x".repeat(32))).unwrap();
        let secret = find_or_make(&given, &DatabaseUrl::Sqlite(file)).unwrap().unwrap();
        assert_eq!((secret.bytes.len(), secret.self_made), (32, false));
    }
}
