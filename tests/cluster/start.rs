//! Servers that start together.

use crate::{postgres::new_database, servers::Servers};

const ROUNDS: usize = 20;

#[test]
fn two_and_three_servers_that_start_at_once_on_an_empty_database_all_start() {
    for _ in 0..ROUNDS {
        for count in [2, 3] {
            let servers = Servers::start(new_database(), count);
            assert!(servers.all().iter().all(|process| process.log().iter().all(|line| !line.contains("ERROR"))));
        }
    }
}
