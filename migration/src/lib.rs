//! Schema of doclock, one migration per released change. Both databases get the same tables; the few
//! places where they differ say so.
//!
//! Times are milliseconds since 1970 (UTC) in big integers: one representation for both databases, compared
//! and indexed as plain numbers.

use sea_orm_migration::prelude::*;

pub use sea_orm_migration::MigratorTrait;

mod m0001_first_tables;
mod m0002_grace_and_tokens;
mod m0003_waiting;

#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first_tables::Migration),
            Box::new(m0002_grace_and_tokens::Migration),
            Box::new(m0003_waiting::Migration),
        ]
    }
}
