//! What a child prints: into the logs, and the beginning and the end kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

/// Lines kept of the beginning: where a server says its port.
const FIRST_LINES: usize = 64;
/// Lines kept of the end: where a dying process says why.
const LAST_LINES: usize = 32;
/// Longer lines are cut, so that a child cannot fill our memory.
const LINE_BYTES: usize = 4096;

/// Lines a child has printed, stdout and stderr together; clones stay current.
#[derive(Debug, Clone, Default)]
pub struct Output {
    kept: Arc<Mutex<Kept>>,
    /// Pipes that are still read.
    open: Arc<watch::Sender<u32>>,
}

#[derive(Debug, Default)]
struct Kept {
    first: Vec<String>,
    last: VecDeque<String>,
}

impl Output {
    /// The first answer of `look` over the lines kept of the beginning.
    pub fn find_map<T>(&self, look: impl FnMut(&str) -> Option<T>) -> Option<T> {
        self.lock().first.iter().map(String::as_str).find_map(look)
    }

    /// The last lines, oldest first.
    pub fn last(&self) -> Vec<String> {
        self.lock().last.iter().cloned().collect()
    }

    /// Waits until everything it printed is here: after its end, as long as no process it left behind holds its pipes.
    pub(super) async fn complete(&self) {
        let mut open = self.open.subscribe();
        // The sender is ours: it cannot be gone.
        drop(open.wait_for(|open| *open == 0).await);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, line: &str) {
        let mut kept = self.lock();
        if kept.first.len() < FIRST_LINES {
            kept.first.push(line.to_owned());
        }
        if kept.last.len() == LAST_LINES {
            kept.last.pop_front();
        }
        kept.last.push_back(line.to_owned());
    }

    /// Reads a pipe to its end, which [`Output::complete`] waits for from now on.
    pub(super) fn follow(
        self,
        child: &'static str,
        stream: &'static str,
        pipe: impl AsyncRead + Unpin,
    ) -> impl Future<Output = ()> {
        self.open.send_modify(|open| *open += 1);
        async move {
            self.read(child, stream, pipe).await;
            self.open.send_modify(|open| *open -= 1);
        }
    }

    async fn read(
        &self,
        child: &'static str,
        stream: &'static str,
        mut pipe: impl AsyncRead + Unpin,
    ) {
        let mut lines = Lines::default();
        let mut buffer = vec![0; 8192];
        loop {
            let read = match pipe.read(&mut buffer).await {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => {
                    tracing::debug!(child, stream, %error, "pipe broke");
                    break;
                }
            };
            lines.take(buffer.get(..read).unwrap_or_default(), |line| {
                tracing::debug!(child, stream, line, "said");
                self.keep(line);
            });
        }
        lines.end(|line| self.keep(line));
    }
}

/// Cuts bytes into lines of bounded length.
#[derive(Debug, Default)]
struct Lines {
    open: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], mut whole: impl FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end(&mut whole);
            } else if self.open.len() < LINE_BYTES {
                self.open.push(byte);
            }
        }
    }

    fn end(&mut self, mut whole: impl FnMut(&str)) {
        if !self.open.is_empty() {
            whole(String::from_utf8_lossy(&self.open).trim_end());
            self.open.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_beginning_and_the_end_are_kept() {
        let text: Vec<String> = (0..1000).map(|i| format!("line {i}")).collect();
        let output = Output::default();
        let pipe = text.join("\n").into_bytes();
        output.clone().follow("test", "stdout", &pipe[..]).await;
        assert_eq!(
            output.find_map(|line| line.strip_prefix("line 6").map(str::len)),
            Some(0)
        );
        assert_eq!(
            output.find_map(|line| (line == "line 999").then_some(())),
            None
        );
        let last = output.last();
        assert_eq!(last.len(), LAST_LINES);
        assert_eq!(last.last().map(String::as_str), Some("line 999"));
    }

    #[tokio::test]
    async fn an_endless_line_is_cut() {
        let output = Output::default();
        let pipe = vec![b'x'; 1_000_000];
        output.clone().follow("test", "stdout", &pipe[..]).await;
        let lengths: Vec<usize> = output.last().iter().map(String::len).collect();
        assert_eq!(lengths, [LINE_BYTES]);
    }
}
