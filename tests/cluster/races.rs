//! The same lock is asked for through several servers at the same instant.

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    caller::{Answer, Caller, lock_path},
    postgres::new_database,
    servers::{Servers, check_log},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_callers_racing_for_a_document_have_one_winner_in_each_of_a_hundred_rounds() {
    const RACERS: usize = 60;
    const ROUNDS: i64 = 100;
    let servers = Servers::start(new_database(), 3);
    let all = servers.all();
    let racers: Vec<_> = (0..RACERS).map(|index| all[index % all.len()].editor(&format!("racer-{index}"))).collect();
    for round in 1..=ROUNDS {
        let mut race = JoinSet::new();
        for racer in racers.iter().cloned() {
            race.spawn(async move {
                let answer = racer.lock("prize", 60).await;
                (racer, answer)
            });
        }
        let (winners, losers): (Vec<_>, Vec<_>) = race.join_all().await.into_iter().partition(|(_, a)| a.is_ok());
        assert!(
            losers.iter().all(|(_, answer)| answer.body["code"] == "LOCK_HELD"),
            "{losers:#?}",
            losers = codes(&losers)
        );
        let [(winner, answer)] = &winners[..] else { panic!("{} winners in round {round}", winners.len()) };
        assert_eq!(answer.body["fencing_token"], round);
        winner.send(Method::DELETE, &lock_path("prize"), json!({})).await.ok();
    }
    let logs = [all[0].admin().events().await, all[2].admin().events().await];
    assert_eq!(logs[0].len(), 200);
    check_log(&logs[0]);
    assert_eq!(logs[0], logs[1]);
}

fn codes(answers: &[(Caller, Answer)]) -> Vec<String> {
    answers.iter().map(|(_, answer)| answer.body.to_string()).collect()
}

/// Odd rounds race for a document that exists, even rounds for a new one.
#[tokio::test]
async fn a_request_sent_to_two_servers_at_once_gets_one_lock_in_each_of_two_hundred_rounds() {
    const ROUNDS: usize = 200;
    let servers = Servers::start(new_database(), 2);
    let [one, other] = &servers.editors("alice")[..] else { unreachable!() };
    for round in 0..ROUNDS {
        let document = if round % 2 == 0 { format!("new-{round}") } else { "old".to_owned() };
        let path = lock_path(&document);
        let wish = json!({ "request_id": format!("request-{round}"), "ttl_seconds": 60 });
        let (first, second) =
            tokio::join!(one.send(Method::POST, &path, wish.clone()), other.send(Method::POST, &path, wish.clone()));
        let (first, second) = (first.ok(), second.ok());
        for field in ["lease_id", "fencing_token", "hold", "expires_at"] {
            assert_eq!(first[field], second[field], "{field} in round {round}");
        }
        one.send(Method::DELETE, &path, json!({ "lease_id": first["lease_id"] })).await.ok();
    }
    let log = servers.processes[0].admin().events().await;
    assert_eq!(log.len(), 2 * ROUNDS);
    check_log(&log);
}

#[tokio::test]
async fn a_request_id_sent_for_two_documents_at_once_acts_once() {
    const ROUNDS: usize = 100;
    let servers = Servers::start(new_database(), 2);
    let [one, other] = &servers.editors("alice")[..] else { unreachable!() };
    for round in 0..ROUNDS {
        let wish = json!({ "request_id": format!("request-{round}") });
        let (left, right) = (lock_path(&format!("left-{round}")), lock_path(&format!("right-{round}")));
        let (first, second) =
            tokio::join!(one.send(Method::POST, &left, wish.clone()), other.send(Method::POST, &right, wish.clone()));
        let (done, refused) = if first.is_ok() { (first, second) } else { (second, first) };
        done.ok();
        assert_eq!(refused.body["code"], "REQUEST_ID_REUSED", "round {round}: {:#}", refused.body);
    }
}

/// Callers lock several documents at once, half of them new, in every order. No request waits until the database detects
/// a deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sets_of_new_and_old_documents_are_locked_without_deadlock() {
    const ROUNDS: usize = 60;
    let servers = Servers::start(new_database(), 2);
    for round in 0..ROUNDS {
        let mut race = JoinSet::new();
        for (index, callers) in (0..8).map(|index| (index, servers.editors(&format!("owner-{index}")))) {
            let documents: Vec<_> = (0..4).map(|step| format!("d{}", (round * 3 + index + step * 5) % 97)).collect();
            let caller = callers[index % 2].clone();
            race.spawn(async move {
                let path = "/api/rooms/room/locks";
                let answer = caller.send(Method::POST, path, json!({ "documents": documents })).await;
                if answer.is_ok() {
                    caller.send(Method::DELETE, path, json!({ "documents": documents })).await.ok();
                }
                answer.status
            });
        }
        let statuses = race.join_all().await;
        assert!(statuses.iter().all(|status| [200, 409].contains(status)), "{statuses:?}");
    }
    check_log(&servers.processes[0].admin().events().await);
    let mut connection = crate::servers::connect(&servers.url).await;
    let deadlocks: i64 =
        sea_orm::sqlx::query_scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    assert_eq!(deadlocks, 0);
}
