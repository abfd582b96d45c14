//! Parts of the pipeline in the order in which they stop: with the data, children last.

use anyhow::Context as _;
use memwide_service::CancellationToken;
use memwide_service::child::{ChildError, Supervisor};
use memwide_service::run::Tasks;
use std::time::Duration;
use tokio::task::JoinSet;

/// A stage has this long to drain; then what it still holds waits in the spool or the stream for the next start.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// In stopping order. The children come last, the store after the stream.
const ORDER: [&str; 7] = [
    "collect",
    "decoder",
    "aggregator",
    "sink",
    "query",
    "nats-server",
    "engine",
];

type Ended = (&'static str, anyhow::Result<()>);

/// The running stages.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    running: JoinSet<Ended>,
    stops: Vec<(&'static str, CancellationToken)>,
    ended: Vec<&'static str>,
}

impl Stages {
    /// Starts a stage whose tasks `fill` adds.
    pub(crate) fn start(&mut self, name: &'static str, fill: impl FnOnce(&Tasks)) {
        let stop = CancellationToken::new();
        let tasks = Tasks::new(stop.clone());
        fill(&tasks);
        self.stops.push((name, stop));
        self.running
            .spawn(async move { (name, tasks.run(DRAIN_WITHIN).await.map_err(Into::into)) });
    }

    /// Starts a supervised child as a stage of its own.
    pub(crate) fn child<F>(
        &mut self,
        name: &'static str,
        make: impl FnOnce(CancellationToken) -> (Supervisor, F),
    ) -> Supervisor
    where
        F: Future<Output = Result<(), ChildError>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let (supervisor, keep) = make(stop.clone());
        self.stops.push((name, stop));
        self.running
            .spawn(async move { (name, keep.await.map_err(Into::into)) });
        supervisor
    }

    /// Waits until a stage ends by itself, which none should.
    pub(crate) async fn next_end(&mut self) -> anyhow::Result<()> {
        match self.join().await {
            Some((name, Ok(()))) => anyhow::bail!("{name} ended by itself"),
            Some((name, Err(failure))) => Err(failure).context(name),
            None => std::future::pending().await,
        }
    }

    /// Stops one stage after the other; the first failure is the answer.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for name in ORDER {
            for (_, stop) in self.stops.iter().filter(|(stage, _)| *stage == name) {
                stop.cancel();
            }
            while self.is_running(name) {
                let Some((ended, result)) = self.join().await else {
                    break;
                };
                outcome = outcome.and(result.context(ended));
            }
        }
        outcome
    }

    fn is_running(&self, name: &str) -> bool {
        self.stops.iter().any(|(stage, _)| *stage == name) && !self.ended.contains(&name)
    }

    async fn join(&mut self) -> Option<Ended> {
        let joined = self.running.join_next().await?;
        let ended = joined.unwrap_or_else(|panic| ("a stage", Err(panic.into())));
        self.ended.push(ended.0);
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn stages_stop_in_the_order_of_the_data() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut stages = Stages::default();
        for name in ["query", "sink", "collect", "aggregator", "decoder"] {
            let order = Arc::clone(&order);
            stages.start(name, |tasks| {
                let stop = tasks.stop().clone();
                tasks.spawn(name, async move {
                    stop.cancelled().await;
                    order.lock().unwrap().push(name);
                    Ok(())
                });
            });
        }
        stages.stop().await.unwrap();
        assert_eq!(
            *order.lock().unwrap(),
            ["collect", "decoder", "aggregator", "sink", "query"]
        );
    }

    #[tokio::test]
    async fn a_stage_that_fails_is_named() {
        let mut stages = Stages::default();
        stages.start("sink", |tasks| {
            tasks.spawn("sink", async { anyhow::bail!("no store") });
        });
        let failure = stages.next_end().await.unwrap_err();
        assert!(format!("{failure:#}").starts_with("sink"), "{failure:#}");
        stages.stop().await.unwrap();
    }
}
