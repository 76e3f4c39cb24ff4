//! The pauses between two attempts.

use std::time::Duration;

/// After a failure the first repeat comes soon: often only the answer was lost.
pub(super) const FIRST_REPEAT: Duration = Duration::from_millis(100);

/// Pauses that grow by half each time, and are scattered so that waiters spread out.
#[derive(Debug)]
pub(super) struct Delays {
    delay: Duration,
    longest: Duration,
    random: fastrand::Rng,
}

impl Delays {
    pub(super) fn new(initial: Duration, longest: Duration, random: fastrand::Rng) -> Self {
        Self { delay: initial, longest, random }
    }

    /// The pauses between repeats of a request that got no answer.
    pub(super) fn of_repeats(longest: Duration) -> Self {
        Self::new(FIRST_REPEAT, longest, fastrand::Rng::new())
    }

    pub(super) fn pause(&mut self) -> Duration {
        let pause = scattered(self.delay, 0.5 + self.random.f64(), self.longest);
        self.delay = grown(self.delay, self.longest);
        pause
    }
}

fn scattered(delay: Duration, factor: f64, longest: Duration) -> Duration {
    delay.mul_f64(factor).min(longest)
}

fn grown(delay: Duration, longest: Duration) -> Duration {
    delay.mul_f64(1.5).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    /// The shortest, middle and longest pause, in seconds, at each attempt.
    fn table(attempts: usize) -> Vec<[f64; 3]> {
        let delays = std::iter::successors(Some(Duration::from_secs(1)), |delay| Some(grown(*delay, LONGEST)));
        let row = |delay| [0.5, 1.0, 1.5].map(|factor| scattered(delay, factor, LONGEST).as_secs_f64());
        delays.take(attempts).map(row).collect()
    }

    #[test]
    fn seed_002_table_of_waits() {
        let table = table(20);
        assert_eq!(table[..3], [[0.5, 1.0, 1.5], [0.75, 1.5, 2.25], [1.125, 2.25, 3.375]]);
        let is_longest = |(found, wanted): (&f64, f64)| (found - wanted).abs() < 1e-9;
        assert!(
            table[19].iter().zip([15.0, 30.0, 30.0]).all(is_longest),
            "the delay stops growing, and no pause is longer than max_delay"
        );
    }

    #[test]
    fn pauses_of_a_seeded_source_are_those_of_seed_002() {
        let mut delays = Delays::new(Duration::from_secs(1), LONGEST, fastrand::Rng::with_seed(2));
        let (mut random, mut delay) = (fastrand::Rng::with_seed(2), 1.0_f64);
        for _ in 0..12 {
            let expected = (delay * (0.5 + random.f64())).min(30.0);
            assert!((delays.pause().as_secs_f64() - expected).abs() < 1e-6);
            delay = (delay * 1.5).min(30.0);
        }
    }
}
