//! Tables and JSON on standard output.

use std::io::{self, Write as _};

use serde_json::Value;

/// Columns under a head, as wide as their widest cell.
#[derive(Debug)]
pub struct Columns(Vec<Vec<String>>);

impl Columns {
    pub fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|&name| name.to_owned()).collect()])
    }

    pub fn add<const N: usize>(&mut self, cells: [String; N]) {
        // What others have chosen, such as names, must not move the cursor.
        let printable =
            |cell: String| cell.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
        self.0.push(cells.map(printable).into());
    }

    pub fn lines(&self) -> Vec<String> {
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<_> = (0..self.0[0].len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.0.iter().map(line).collect()
    }
}

/// Prints lines at once. Whoever reads them may have gone, as in `doclock events | head`: then it fails.
pub fn print(lines: impl IntoIterator<Item = String>) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let written = lines.into_iter().try_for_each(|line| writeln!(out, "{line}"));
    written.and_then(|()| out.flush()).map_err(|error| format!("cannot print: {error}"))
}

/// The field's text; numbers too, nothing for null.
pub fn text(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
