//! The database's clock is stepped, by the offset that is added to it.

use serde_json::Value;

use crate::{
    caller::{Caller, eventually},
    postgres::new_database,
    servers::Servers,
};

async fn server_time(caller: &Caller) -> String {
    caller.get("/healthz").await.ok()["server_time"].as_str().unwrap().to_owned()
}

/// The last time that each server has answered. No server may answer an earlier one.
struct Told(Vec<(Caller, String)>);

impl Told {
    async fn by(callers: Vec<Caller>) -> Self {
        let mut told = Self(callers.into_iter().map(|caller| (caller, String::new())).collect());
        told.again().await;
        told
    }

    async fn again(&mut self) {
        for (caller, last) in &mut self.0 {
            let now = server_time(caller).await;
            assert!(now >= *last, "{now} after {last}");
            *last = now;
        }
    }

    fn earliest(&self) -> String {
        self.0.iter().map(|(_, last)| last.clone()).min().unwrap()
    }
}

async fn has_expired(caller: &Caller, told: &mut Told, document: &str) {
    let event = |events: Vec<Value>| {
        events.into_iter().find(|event| event["document"] == document && event["reason"] == "expired")
    };
    eventually("the lock expires and is announced", async || {
        told.again().await;
        event(caller.events().await)
    })
    .await;
}

#[tokio::test]
async fn a_step_of_the_database_clock_loses_no_lock_freezes_none_and_never_turns_time_back() {
    let servers = Servers::start(new_database(), 2);
    let (alice, admin) = (servers.processes[0].editor("alice"), servers.processes[1].admin());
    let mut told = Told::by(servers.editors("alice")).await;
    let start = told.earliest();
    let kept = alice.lock("kept", 30).await.ok()["lease_id"].clone();
    let idle = alice.lock("idle", 300).await.ok()["lease_id"].clone();
    for (document, step) in [("ahead", 3_600_000), ("back", -3_600_000), ("far-back", -7_200_000), ("again", 3_600_000)]
    {
        servers.sql(&format!("UPDATE server_life SET clock_offset = clock_offset + {step}")).await;
        alice.lock(document, 1).await.ok();
        has_expired(&admin, &mut told, document).await;
        for caller in servers.editors("alice") {
            assert_eq!(caller.read("kept").await["lease_id"], kept, "{document}");
            assert_eq!(caller.read("idle").await["lease_id"], idle, "{document}");
            assert_eq!(caller.extend("kept").await.ok()["lease_id"], kept, "{document}");
        }
    }
    told.again().await;
    // Two steps ahead of an hour each, and none of the steps back.
    let hours = |from: &str, to: &str| {
        let parse = |text: &str| chrono::DateTime::parse_from_rfc3339(text).unwrap();
        (parse(to) - parse(from)).num_minutes()
    };
    assert!((120..125).contains(&hours(&start, &told.earliest())), "{start} {}", told.earliest());
    let times: Vec<_> = admin.events().await.iter().map(|event| event["at"].as_str().unwrap().to_owned()).collect();
    assert!(times.is_sorted(), "{times:#?}");
}

#[tokio::test]
async fn a_step_ahead_gives_every_live_lock_a_whole_ttl() {
    let servers = Servers::start(new_database(), 2);
    let alice = servers.processes[0].editor("alice");
    alice.lock("idle", 300).await.ok();
    let before = alice.read("idle").await;
    servers.sql("UPDATE server_life SET clock_offset = clock_offset + 3600000").await;
    eventually("the outage is seen", async || {
        let lock = alice.read("idle").await;
        (lock["expires_at"] != before["expires_at"]).then_some(())
    })
    .await;
    let after = alice.read("idle").await;
    assert_eq!(after["lease_id"], before["lease_id"]);
    let parse = |value: &Value| chrono::DateTime::parse_from_rfc3339(value.as_str().unwrap()).unwrap();
    let gained = parse(&after["expires_at"]) - parse(&before["expires_at"]);
    assert!(gained.num_milliseconds() >= 3_600_000, "{gained}");
    assert!(after["expires_in_ms"].as_i64().unwrap() <= 300_000, "{after:#}");
}
