//! What a stream is told: the newest state, not a queue. A decoder that does not listen costs nothing.

use memwide_proto::v1;
use tokio::sync::watch;

use v1::aggregator_to_decoder::Message;

/// Everything a stream has been told so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    opened: Option<u64>,
    committed: u64,
    resumes: u64,
    resume_from: u64,
    refuse: Option<v1::Refuse>,
}

/// The owner's end of a stream's answers. Dropped: the stream ends.
#[derive(Debug)]
pub(crate) struct Teller(watch::Sender<Answers>);

/// The stream's end.
#[derive(Debug)]
pub(crate) struct Listener {
    state: watch::Receiver<Answers>,
    told: Answers,
}

/// Both ends.
pub(crate) fn answers() -> (Teller, Listener) {
    let (sender, state) = watch::channel(Answers::default());
    (
        Teller(sender),
        Listener {
            state,
            told: Answers::default(),
        },
    )
}

impl Teller {
    /// The stream begins; batch `next` is wanted.
    pub(crate) fn opened(&self, next: u64) {
        self.0.send_modify(|state| state.opened = Some(next));
    }

    /// Batches up to `through` are in the stream.
    pub(crate) fn committed(&self, through: u64) {
        self.0.send_if_modified(|state| {
            let news = through > state.committed;
            state.committed = state.committed.max(through);
            news
        });
    }

    /// Send again from batch `from`.
    pub(crate) fn resume(&self, from: u64) {
        self.0.send_modify(|state| {
            state.resumes += 1;
            state.resume_from = from;
        });
    }

    /// The stream ends for this reason.
    pub(crate) fn refuse(&self, reason: &str, message: String, retry: bool) {
        let refuse = v1::Refuse {
            reason: reason.to_owned(),
            message,
            retry,
        };
        self.0.send_modify(|state| state.refuse = Some(refuse));
    }
}

impl Listener {
    /// The next messages to send, in order; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Vec<Message>> {
        if self.told.refuse.is_some() {
            return None;
        }
        loop {
            let ended = self.state.changed().await.is_err();
            let now = self.state.borrow_and_update().clone();
            let messages = self.told.news(&now);
            self.told = now;
            if !messages.is_empty() {
                return Some(messages);
            }
            if ended {
                return None;
            }
        }
    }
}

impl Answers {
    fn news(&self, now: &Self) -> Vec<Message> {
        let mut messages = Vec::new();
        if let (None, Some(next)) = (self.opened, now.opened) {
            messages.push(Message::Opened(v1::Opened { next }));
        }
        if now.committed > self.committed {
            messages.push(Message::Committed(v1::Committed {
                through: now.committed,
            }));
        }
        if now.resumes > self.resumes {
            messages.push(Message::Resume(v1::Resume {
                from: now.resume_from,
            }));
        }
        if let (None, Some(refuse)) = (&self.refuse, &now.refuse) {
            messages.push(Message::Refuse(refuse.clone()));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_hears_the_newest_of_each_kind_in_order() {
        let (teller, mut listener) = answers();
        teller.opened(3);
        teller.resume(3);
        teller.committed(4);
        teller.committed(7);
        teller.resume(8);
        let heard = listener.next().await.unwrap();
        assert_eq!(
            heard,
            [
                Message::Opened(v1::Opened { next: 3 }),
                Message::Committed(v1::Committed { through: 7 }),
                Message::Resume(v1::Resume { from: 8 }),
            ]
        );
    }

    #[tokio::test]
    async fn nothing_is_said_twice_and_the_end_comes_after_the_last_word() {
        let (teller, mut listener) = answers();
        teller.committed(5);
        assert_eq!(listener.next().await.unwrap().len(), 1);
        teller.committed(4);
        teller.committed(6);
        drop(teller);
        assert_eq!(
            listener.next().await.unwrap(),
            [Message::Committed(v1::Committed { through: 6 })]
        );
        assert_eq!(listener.next().await, None);
    }

    #[tokio::test]
    async fn a_refusal_is_the_last_word() {
        let (teller, mut listener) = answers();
        teller.refuse("source", "newer stream".to_owned(), false);
        assert_eq!(listener.next().await.unwrap().len(), 1);
        assert_eq!(listener.next().await, None);
    }
}
