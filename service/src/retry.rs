//! Backoff with jitter, and what an error says about trying again.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// What an error says about trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// It may work later: wait as the backoff says.
    Retry,
    /// It may work after this pause, which the other side asked for.
    RetryAfter(Duration),
    /// This item can never work; count it and go on with the next.
    Drop,
    /// Nothing will work until somebody acts.
    Fatal,
}

/// An error that knows what to do about it.
pub trait Advise {
    /// The one place that says which failures are worth another try.
    fn advice(&self) -> Advice;
}

/// Source of jitter, so that tests need no luck.
pub trait Jitter: Send + fmt::Debug {
    /// The next number in `0.0..1.0`.
    fn next_unit(&mut self) -> f64;
}

/// Jitter that differs between processes; not for secrets.
#[derive(Debug, Clone)]
pub struct RandomJitter(u64);

impl Default for RandomJitter {
    fn default() -> Self {
        // A fresh `RandomState` is keyed by the system's randomness.
        Self(RandomState::new().build_hasher().finish() | 1)
    }
}

impl Jitter for RandomJitter {
    fn next_unit(&mut self) -> f64 {
        // xorshift64: enough to spread retries in time.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The same number for ever; 0.0 gives the shortest pauses.
#[derive(Debug, Clone, Copy)]
pub struct FixedJitter(pub f64);

impl Jitter for FixedJitter {
    fn next_unit(&mut self) -> f64 {
        self.0
    }
}

/// Pauses that double up to a bound, each between half of its length and the whole.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    attempt: u32,
    jitter: Box<dyn Jitter>,
}

impl Backoff {
    /// The first pause is at most `first`, no pause is longer than `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self::with_jitter(first, longest, Box::new(RandomJitter::default()))
    }

    /// As [`Backoff::new`], with the given source of jitter.
    pub fn with_jitter(first: Duration, longest: Duration, jitter: Box<dyn Jitter>) -> Self {
        Self {
            first,
            longest,
            attempt: 0,
            jitter,
        }
    }

    /// How long to wait before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.attempt).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.longest);
        self.attempt = self.attempt.saturating_add(1).min(31);
        whole.mul_f64(0.5 + 0.5 * self.jitter.next_unit().clamp(0.0, 1.0))
    }

    /// Attempts since the last [`Backoff::reset`].
    pub fn attempts(&self) -> u32 {
        self.attempt
    }

    /// It worked: the next failure starts with short pauses again.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// How [`retry`] ended without a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError<E: std::error::Error + 'static> {
    /// The error said that another try cannot help.
    #[error("gave up after {attempts} attempts")]
    GaveUp {
        /// Attempts made, the failed one included.
        attempts: u32,
        /// What the last one said.
        #[source]
        source: E,
    },
    /// The process is stopping.
    #[error("stopped while waiting to try again")]
    Stopped,
}

/// Calls `attempt` until it works, its error says stop, or `stop` is cancelled.
pub async fn retry<T, E, F, A>(
    backoff: &mut Backoff,
    stop: &CancellationToken,
    mut attempt: A,
) -> Result<T, RetryError<E>>
where
    E: Advise + std::error::Error + 'static,
    F: Future<Output = Result<T, E>>,
    A: FnMut() -> F,
{
    let mut attempts = 0;
    loop {
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(RetryError::Stopped),
            outcome = attempt() => outcome,
        };
        attempts += 1;
        let source = match outcome {
            Ok(value) => {
                backoff.reset();
                return Ok(value);
            }
            Err(source) => source,
        };
        let pause = match source.advice() {
            Advice::Retry => backoff.next_pause(),
            Advice::RetryAfter(pause) => pause,
            Advice::Drop | Advice::Fatal => return Err(RetryError::GaveUp { attempts, source }),
        };
        tokio::select! {
            () = stop.cancelled() => return Err(RetryError::Stopped),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(unit: f64, n: usize) -> Vec<u128> {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::with_jitter(first, longest, Box::new(FixedJitter(unit)));
        (0..n).map(|_| backoff.next_pause().as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_the_bound() {
        assert_eq!(pauses(1.0, 6), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(pauses(0.0, 6), [50, 100, 200, 400, 500, 500]);
    }

    #[test]
    fn a_long_outage_does_not_overflow() {
        let last = pauses(1.0, 100).pop();
        assert_eq!(last, Some(1000));
    }

    #[test]
    fn random_jitter_stays_in_range_and_varies() {
        let mut jitter = RandomJitter::default();
        let drawn: Vec<f64> = (0..1000).map(|_| jitter.next_unit()).collect();
        assert!(drawn.iter().all(|u| (0.0..1.0).contains(u)));
        let low = drawn.iter().filter(|u| **u < 0.5).count();
        assert!((300..700).contains(&low), "{low} of 1000 below one half");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("failed: {0:?}")]
    struct Failure(Advice);
    impl Advise for Failure {
        fn advice(&self) -> Advice {
            self.0
        }
    }

    async fn run(advices: &[Advice]) -> (Result<u32, RetryError<Failure>>, Duration) {
        let begin = tokio::time::Instant::now();
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::with_jitter(second, second * 60, Box::new(FixedJitter(1.0)));
        let mut rows = advices.iter();
        let stop = CancellationToken::new();
        let outcome = retry(&mut backoff, &stop, || {
            let row = rows.next().copied();
            async move { row.map_or(Ok(7), |advice| Err(Failure(advice))) }
        })
        .await;
        (outcome, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_as_advised_and_returns_the_value() {
        let asked = Advice::RetryAfter(Duration::from_secs(30));
        let (outcome, waited) = run(&[Advice::Retry, Advice::Retry, asked]).await;
        assert_eq!(outcome.unwrap(), 7);
        assert_eq!(waited.as_secs(), 1 + 2 + 30);
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_at_once_when_told_so() {
        for advice in [Advice::Fatal, Advice::Drop] {
            let (outcome, waited) = run(&[Advice::Retry, advice]).await;
            let failure = outcome.unwrap_err().to_string();
            assert_eq!(failure, "gave up after 2 attempts");
            assert_eq!(waited.as_secs(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_ends_the_wait() {
        let stop = CancellationToken::new();
        let mut backoff = Backoff::new(Duration::from_mins(1), Duration::from_mins(1));
        let late = stop.clone();
        let (outcome, ()) = tokio::join!(
            retry(&mut backoff, &stop, || async {
                Err::<(), _>(Failure(Advice::Retry))
            }),
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                late.cancel();
            }
        );
        assert!(matches!(outcome, Err(RetryError::Stopped)));
    }
}
