//! `doclock new-epoch`.

use doclock::{settings::Settings, storage};

pub async fn new_epoch(settings: &Settings) -> Result<(), String> {
    let begun = storage::new_epoch(&settings.database.url).await.map_err(|error| error.to_string())?;
    println!(
        "epoch {} begins; {} locks ended; new fencing tokens are greater than {}",
        begun.epoch, begun.ended_locks, begun.token_floor
    );
    Ok(())
}
