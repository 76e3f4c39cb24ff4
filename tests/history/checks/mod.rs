//! The rules, each a pure function from a history to what is wrong with it.
//!
//! What is not known for sure is given the benefit of the doubt: a request without an answer may have been done, not
//! done, or done later. So whatever is found here is wrong, whichever way the races went.

mod answers;
mod exclusion;
mod holds;
mod once;
mod order;
mod promises;
mod reads;
mod refusals;
mod samples;
mod streams;
mod tokens;

use crate::{
    history::History,
    record::{Moment, Name},
};

#[derive(Debug, Clone)]
pub struct Violation {
    pub rule: &'static str,
    /// The document it is about.
    pub key: Option<Name>,
    pub at: Moment,
    pub told: String,
}

/// What one rule has found.
#[derive(Debug)]
pub struct Findings {
    pub rule: &'static str,
    pub checked: usize,
    pub violations: Vec<Violation>,
}

impl Findings {
    fn of(rule: &'static str) -> Self {
        Self { rule, checked: 0, violations: Vec::new() }
    }

    /// Something that must be so.
    fn check(&mut self, is_so: bool, key: &Name, at: Moment, told: impl FnOnce() -> String) {
        self.checked += 1;
        if !is_so {
            self.violations.push(Violation { rule: self.rule, key: Some(key.clone()), at, told: told() });
        }
    }
}

type Rule = fn(&History) -> Findings;

const RULES: [Rule; 9] = [
    answers::check,
    order::check,
    tokens::check,
    exclusion::check,
    once::check,
    refusals::check,
    reads::check,
    promises::check,
    streams::check,
];

/// Of each rule, what it found, the first first.
pub fn all(history: &History) -> Vec<Findings> {
    let mut all: Vec<_> = RULES.iter().map(|rule| rule(history)).collect();
    for findings in &mut all {
        findings.violations.sort_by_key(|violation| violation.at);
    }
    all
}

/// A hand-made history, and whether the rule has to find something in it.
struct Planted {
    name: &'static str,
    rule: Rule,
    history: History,
    is_wrong: bool,
}

fn wrong(name: &'static str, rule: Rule, history: History) -> Planted {
    Planted { name, rule, history, is_wrong: true }
}

fn right(name: &'static str, rule: Rule, history: History) -> Planted {
    Planted { name, rule, history, is_wrong: false }
}

/// Every rule sees what was planted for it, and nothing where nothing is wrong. Answers how many were tried, and what failed.
pub fn test_themselves() -> (usize, Vec<String>) {
    let planted: Vec<Planted> = [
        answers::planted(),
        order::planted(),
        tokens::planted(),
        exclusion::planted(),
        once::planted(),
        refusals::planted(),
        reads::planted(),
        promises::planted(),
        streams::planted(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let failed = planted.iter().filter_map(|Planted { name, rule, history, is_wrong }| {
        let findings = rule(history);
        let told: Vec<_> = findings.violations.iter().map(|violation| violation.told.as_str()).collect();
        (findings.violations.is_empty() == *is_wrong).then(|| format!("{}: {name}: {told:?}", findings.rule))
    });
    (planted.len(), failed.collect())
}
