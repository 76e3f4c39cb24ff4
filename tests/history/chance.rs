//! Chance that is the same for the same seed.

use std::time::Duration;

/// `SplitMix64`: small, and good enough to choose operations by.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A stream of its own for each part of a run, so that one does not depend on how often another draws.
    pub fn branch(seed: u64, round: usize, part: &str, index: usize) -> Self {
        let mut mixed = Self(seed);
        for byte in part.bytes() {
            mixed.0 = mixed.next().wrapping_add(u64::from(byte));
        }
        for number in [round, index] {
            mixed.0 = mixed.next().wrapping_add(number as u64);
        }
        mixed
    }

    /// The choices of one operation: however many it takes, the next one's are the same.
    pub fn one(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or_default()
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len())) }
    }

    /// An index, each as likely as its weight says.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }

    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.between(least * 1000, most * 1000))
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}
