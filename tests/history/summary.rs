//! What a run did, in figures.

use std::collections::BTreeMap;

use crate::{checks::Findings, history::History, request::Verb};

#[derive(Debug, Default)]
pub struct Summary {
    calls: BTreeMap<(Verb, bool), BTreeMap<String, usize>>,
    troubles: BTreeMap<&'static str, usize>,
    checks: BTreeMap<&'static str, (usize, usize)>,
    events: usize,
    visits: usize,
    notices: usize,
    pub violations: usize,
}

impl Summary {
    pub fn add(&mut self, history: &History, findings: &[Findings]) {
        for call in &history.calls {
            let by_answer = self.calls.entry((call.verb(), call.request.many)).or_default();
            *by_answer.entry(call.answer.kind()).or_default() += 1;
        }
        for trouble in &history.troubles {
            *self.troubles.entry(trouble.kind).or_default() += 1;
        }
        for Findings { rule, checked, violations } in findings {
            let (all, wrong) = self.checks.entry(rule).or_default();
            *all += checked;
            *wrong += violations.len();
            self.violations += violations.len();
        }
        self.events += history.log.len();
        self.visits += history.visits.len();
        self.notices += history.visits.iter().map(|visit| visit.heard.len()).sum::<usize>();
    }

    pub fn print(&self) {
        let total: usize = self.calls.values().flat_map(BTreeMap::values).sum();
        println!(
            "  {total} operations, {} events, {} visits of followers with {} notices",
            self.events, self.visits, self.notices
        );
        for ((verb, many), answers) in &self.calls {
            let answers: Vec<_> = answers.iter().map(|(answer, count)| format!("{answer} × {count}")).collect();
            println!("    {verb:?}{}: {}", if *many { " (several)" } else { "" }, answers.join(", "));
        }
        let troubles: Vec<_> = self.troubles.iter().map(|(kind, count)| format!("{kind} × {count}")).collect();
        println!("  troubles: {}", troubles.join(", "));
        for (rule, (checked, violations)) in &self.checks {
            println!("  {checked:>9} checked, {violations} violated: {rule}");
        }
    }
}
