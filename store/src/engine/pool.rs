//! The engine's threads: a small pool for inserts, one for everything else, and one thread that stops queries whose
//! client has left.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ffi::{Connection, Engine};

/// Stack of an engine thread: its parser recurses, and 1 MiB is the least that deep subqueries need.
const STACK_BYTES: usize = 16 << 20;

/// Queries that wait to be stopped; more are stopped by the end of their stream.
const STOP_QUEUE: usize = 256;
/// Pause between two attempts to stop a query that had not begun yet.
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// Attempts to stop one query.
const STOP_ATTEMPTS: u32 = 100;

/// Opens sessions on the one folder of this process.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    pub(super) engine: Engine,
    /// Arguments of every session; the first one starts the engine.
    pub(super) arguments: Arc<[String]>,
}

impl Sessions {
    pub(super) fn open(&self) -> Result<Connection, String> {
        self.engine
            .connect(&self.arguments)
            .map_err(|error| error.to_string())
    }
}

/// Where a running query can be seen and told to stop.
#[derive(Debug, Default)]
pub(super) struct Progress {
    cancelled: AtomicBool,
    finished: AtomicBool,
}

impl Progress {
    pub(super) fn is_cancelled(&self) -> bool {
        // ATOMICS: a flag alone; nothing is published with it.
        self.cancelled.load(Ordering::Relaxed)
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }
}

/// Work for an engine thread.
pub(super) type Job = Box<dyn FnOnce(&Sessions) + Send>;

/// Threads that take jobs from one bounded queue.
#[derive(Debug)]
pub(super) struct Pool {
    queue: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn start(
        name: &str,
        threads: usize,
        queue: usize,
        sessions: &Sessions,
    ) -> io::Result<Self> {
        let (sender, jobs) = sync_channel::<Job>(queue);
        let jobs = Arc::new(Mutex::new(jobs));
        let mut handles = Vec::new();
        for number in 0..threads.max(1) {
            let (jobs, sessions) = (Arc::clone(&jobs), sessions.clone());
            let thread = std::thread::Builder::new()
                .name(format!("{name}-{number}"))
                .stack_size(STACK_BYTES);
            handles.push(thread.spawn(move || {
                while let Some(job) = next(&jobs) {
                    job(&sessions);
                }
            })?);
        }
        Ok(Self {
            queue: sender,
            threads: handles,
        })
    }

    /// Where jobs go in.
    pub(super) fn queue(&self) -> SyncSender<Job> {
        self.queue.clone()
    }

    /// Waits until the queue is empty and every thread has ended; all other senders must be gone.
    pub(super) fn join(self) {
        drop(self.queue);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn next(jobs: &Mutex<Receiver<Job>>) -> Option<Job> {
    jobs.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .recv()
        .ok()
}

/// A job, or why it is not taken.
pub(super) fn submit(queue: &SyncSender<Job>, job: Job) -> Result<(), &'static str> {
    queue.try_send(job).map_err(|error| match error {
        TrySendError::Full(_) => "too many requests are waiting for the engine; try again",
        TrySendError::Disconnected(_) => "the engine is stopping",
    })
}

/// A query to stop.
#[derive(Debug)]
struct Stop {
    query_id: String,
    progress: Arc<Progress>,
    attempts: u32,
}

/// Stops queries from a thread of its own.
#[derive(Debug, Clone)]
pub(super) struct Stopper {
    queue: SyncSender<Stop>,
}

impl Stopper {
    pub(super) fn start(sessions: &Sessions) -> io::Result<(Self, JoinHandle<()>)> {
        let (queue, stops) = sync_channel(STOP_QUEUE);
        let sessions = sessions.clone();
        let thread = std::thread::Builder::new()
            .name("stopper".into())
            .stack_size(STACK_BYTES);
        let thread = thread.spawn(move || stop_all(&sessions, &stops))?;
        Ok((Self { queue }, thread))
    }

    /// Marks a query as not wanted any more, and sees to it that it stops.
    pub(super) fn stop(&self, query_id: String, progress: Arc<Progress>) {
        progress.cancelled.store(true, Ordering::Relaxed);
        // A full queue means hundreds are being stopped; this one ends at its next write to the closed stream.
        let _ = self.queue.try_send(Stop {
            query_id,
            progress,
            attempts: 0,
        });
    }
}

fn stop_all(sessions: &Sessions, stops: &Receiver<Stop>) {
    let mut open: Vec<Stop> = Vec::new();
    loop {
        let next = if open.is_empty() {
            stops.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            stops.recv_timeout(STOP_PAUSE)
        };
        match next {
            Ok(stop) => open.push(stop),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        open.extend(stops.try_iter());
        for stop in &mut open {
            stop.attempts += 1;
            if !stop.progress.is_finished() {
                kill(
                    sessions,
                    &format!(
                        "Settings['log_comment'] = {}",
                        quote(&comment(&stop.query_id))
                    ),
                );
            }
        }
        open.retain(|stop| !stop.progress.is_finished() && stop.attempts < STOP_ATTEMPTS);
    }
}

/// Stops the queries that `condition` selects.
pub(super) fn kill(sessions: &Sessions, condition: &str) {
    let sql = format!("KILL QUERY WHERE {condition} ASYNC");
    let killed = sessions
        .open()
        .and_then(|mut session| session.query(sql.as_bytes(), "Null", &[]).map(drop));
    if let Err(error) = killed {
        tracing::warn!(error, "could not stop a query whose client left");
    }
}

/// The `log_comment` by which a query is found.
pub(super) fn comment(query_id: &str) -> String {
    format!("query_id:{query_id}")
}

/// A string literal.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
