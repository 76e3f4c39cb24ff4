//! `doclock backup FILE`.

use std::path::Path;

use doclock::{
    settings::{DatabaseUrl, Settings},
    storage,
};

pub fn backup(settings: &Settings, file: &Path) -> Result<(), String> {
    let DatabaseUrl::Sqlite(database) = &settings.database.url else {
        return Err("this is for SQLite; on PostgreSQL use pg_dump".to_owned());
    };
    let bytes = storage::backup(database, file).map_err(|error| error.to_string())?;
    println!("wrote {} ({bytes} bytes)", file.display());
    Ok(())
}
