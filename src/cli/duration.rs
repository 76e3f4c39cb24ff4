//! Times as they are typed: `30s`, `5m`, `8h`, `7d`.

use std::time::Duration;

/// Fails on anything but a number above 0 and its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("is out of range".to_owned()),
        time => Ok(time),
    }
}

pub fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err("must end with s, m, h or d".to_owned()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| "must be a number and s, m, h or d".to_owned())?;
    let seconds = count.checked_mul(unit).ok_or_else(|| "is out of range".to_owned())?;
    Ok(Duration::from_secs(seconds.into()))
}
