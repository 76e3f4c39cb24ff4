//! What `/metrics` shows.

use std::time::Duration;

use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    http_requests: IntCounterVec,
    http_seconds: HistogramVec,
    pub locks: IntGauge,
    pub sockets: IntGauge,
    pub subscriptions: IntGauge,
    pub queue_depth: IntGauge,
    pub commit_seconds: Histogram,
    pub commit_batch_size: Histogram,
    pub events: IntCounter,
    pub sweeps: IntCounter,
    /// Tickets in waiting lines now, and how long the oldest has waited.
    pub waiting: IntGauge,
    pub oldest_wait_seconds: IntGauge,
    pub wait_seconds: Histogram,
    pub ends: IntCounterVec,
    pub handovers: IntCounterVec,
    pub refusals: IntCounterVec,
}

impl Metrics {
    pub fn new() -> Result<Self, prometheus::Error> {
        const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
        let seconds = |name: &str, help: &str| HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        let metrics = Self {
            registry: Registry::new(),
            http_requests: IntCounterVec::new(
                Opts::new("doclock_http_requests_total", "HTTP requests answered."),
                &["route", "method", "status"],
            )?,
            http_seconds: HistogramVec::new(
                seconds("doclock_http_request_seconds", "Time to answer an HTTP request."),
                &["route", "method"],
            )?,
            locks: IntGauge::new("doclock_locks", "Locks in the lock table.")?,
            sockets: IntGauge::new("doclock_sockets", "Open WebSockets and event streams.")?,
            subscriptions: IntGauge::new("doclock_subscriptions", "Places of sockets and event streams in rooms.")?,
            queue_depth: IntGauge::new("doclock_queue_depth", "Commands waiting for the committer.")?,
            commit_seconds: Histogram::with_opts(seconds("doclock_commit_seconds", "Time to commit a batch."))?,
            commit_batch_size: Histogram::with_opts(
                HistogramOpts::new("doclock_commit_batch_size", "Commands per committed batch.")
                    .buckets(prometheus::exponential_buckets(1.0, 2.0, 10)?),
            )?,
            events: IntCounter::new("doclock_events_total", "Events appended to the log.")?,
            sweeps: IntCounter::new("doclock_sweeps_total", "Runs of the sweep job.")?,
            waiting: IntGauge::new("doclock_waiting", "Tickets in waiting lines, of all servers.")?,
            oldest_wait_seconds: IntGauge::new(
                "doclock_oldest_wait_seconds",
                "How long the oldest ticket has waited.",
            )?,
            wait_seconds: Histogram::with_opts(
                HistogramOpts::new("doclock_wait_seconds", "Time in line of those who got their lock.")
                    .buckets(prometheus::exponential_buckets(0.01, 4.0, 10)?),
            )?,
            ends: IntCounterVec::new(Opts::new("doclock_ends_total", "Locks that have ended."), &["reason"])?,
            handovers: IntCounterVec::new(Opts::new("doclock_handovers_total", "Asks that have ended."), &["outcome"])?,
            refusals: IntCounterVec::new(
                Opts::new("doclock_refusals_total", "Commands refused by a rule."),
                &["code"],
            )?,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.http_requests.clone()))?;
        registry.register(Box::new(metrics.http_seconds.clone()))?;
        registry.register(Box::new(metrics.locks.clone()))?;
        registry.register(Box::new(metrics.sockets.clone()))?;
        registry.register(Box::new(metrics.subscriptions.clone()))?;
        registry.register(Box::new(metrics.queue_depth.clone()))?;
        registry.register(Box::new(metrics.commit_seconds.clone()))?;
        registry.register(Box::new(metrics.commit_batch_size.clone()))?;
        registry.register(Box::new(metrics.events.clone()))?;
        registry.register(Box::new(metrics.sweeps.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.oldest_wait_seconds.clone()))?;
        registry.register(Box::new(metrics.wait_seconds.clone()))?;
        registry.register(Box::new(metrics.ends.clone()))?;
        registry.register(Box::new(metrics.handovers.clone()))?;
        registry.register(Box::new(metrics.refusals.clone()))?;
        Ok(metrics)
    }

    /// Counts a request. `route` is the pattern, never the path, so that clients cannot add to the number of metrics.
    pub fn http(&self, route: &str, method: &str, status: &str, took: Duration) {
        self.http_requests.with_label_values(&[route, method, status]).inc();
        self.http_seconds.with_label_values(&[route, method]).observe(took.as_secs_f64());
    }

    pub fn render(&self) -> String {
        let mut text = Vec::new();
        // Writing to memory cannot fail, and a metric that cannot be written is left out.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}
