//! A violation with what led to it: what was asked on that document, what the log has of it, what was done to the servers.

use crate::{
    checks::Violation,
    history::History,
    record::{Answer, Call, Moment, NEVER, Seen},
};

/// How much of the time around it is told, and how many lines at most.
const BEFORE: Moment = Moment::from_secs(8);
const AFTER: Moment = Moment::from_secs(3);
const LINES: usize = 80;

pub fn tell(violation: &Violation, history: &History) -> String {
    let Violation { rule, key, at, told } = violation;
    let mut lines: Vec<(Moment, String)> = Vec::new();
    if let Some(key) = key {
        let about = history.calls.iter().filter(|call| call.request.is_about(key));
        lines.extend(about.map(|call| (call.invoked, line(call))));
        for index in history.events_of(key) {
            let committed = history.committed[*index];
            let until = if committed.not_after == NEVER { "?".to_owned() } else { seconds(committed.not_after) };
            lines.push((
                committed.not_before,
                format!("{}…{until} {}", seconds(committed.not_before), history.log[*index].told()),
            ));
        }
    }
    for trouble in &history.troubles {
        lines.push((
            trouble.from,
            format!("{}…{} TROUBLE {}", seconds(trouble.from), seconds(trouble.until), trouble.told),
        ));
    }
    lines.sort();
    let near = |moment: Moment| moment + BEFORE >= *at && moment <= *at + AFTER;
    // The nearest ones, if there are too many.
    let mut around: Vec<_> = lines.into_iter().filter(|(moment, _)| near(*moment)).collect();
    let place = around.partition_point(|(moment, _)| moment <= at);
    let first = place.saturating_sub(LINES * 3 / 4);
    around.drain(..first);
    around.truncate(LINES);
    let story: Vec<_> = around.into_iter().map(|(_, line)| format!("    {line}\n")).collect();
    let story = story.concat();
    let document = key.as_deref().unwrap_or("-");
    format!("VIOLATION of {rule}\n  {document} at {}: {told}\n{story}", seconds(*at))
}

fn line(call: &Call) -> String {
    let Call { owner, server, request, invoked, settled, answer } = call;
    let answer = match answer {
        Answer::Live(live) => format!("live {}", live.iter().map(lock).collect::<Vec<_>>().join(", ")),
        Answer::Ended(ended) => format!("ended {:?}", ended.iter().map(|end| end.token).collect::<Vec<_>>()),
        Answer::Looked { lock: shown, last_token } => {
            format!("shown {}, last token {last_token}", shown.as_ref().map_or("nothing".to_owned(), lock))
        }
        Answer::Refused(refused) => {
            let named = refused.failed.iter().filter_map(|failed| failed.lock.as_ref()).map(lock);
            format!("{} {} {}", refused.status, refused.code, named.collect::<Vec<_>>().join(", "))
        }
        Answer::Listed(items) => format!("{} listed", items.len()),
        Answer::Unlocked(count) => format!("{count} ended"),
        Answer::Odd(odd) => odd.clone(),
        Answer::Lost | Answer::Unknown | Answer::Verified { .. } => format!("{answer:?}"),
    };
    format!("{}…{} server {server} {owner}: {} -> {answer}", seconds(*invoked), seconds(*settled), request.told())
}

fn lock(seen: &Seen) -> String {
    let lease = seen.lease.map_or("-".to_owned(), crate::log::short);
    let expires_at = crate::log::clock(seen.expires_at);
    format!(
        "token {} of {} lease {lease} hold {} for {} ms until {expires_at}",
        seen.token, seen.owner, seen.hold, seen.expires_in_ms
    )
}

fn seconds(moment: Moment) -> String {
    format!("{:.4}", moment.as_secs_f64())
}
