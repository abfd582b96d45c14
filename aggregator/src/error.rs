//! Why a role stopped, or a request to the stream failed.

use memwide_store::StoreError;

/// Boxed cause from the NATS client, whose error types are many.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failed request to JetStream, or a stream that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A URL of the servers is not understood.
    #[error("NATS URL `{url}` is not understood; it looks like nats://127.0.0.1:4222")]
    Url {
        /// The URL.
        url: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The server did not answer, or said that it cannot now.
    #[error("NATS does not {action} now")]
    Away {
        /// What was asked for.
        action: &'static str,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The stream exists with settings that would lose rows or count them twice.
    #[error(
        "stream {stream} has {setting} = {have}, {want} is needed: delete the stream once its rows are stored, \
         or change the configuration to fit"
    )]
    WrongSetting {
        /// Name of the stream.
        stream: String,
        /// Which setting.
        setting: &'static str,
        /// Its value.
        have: String,
        /// The value needed.
        want: String,
    },
    /// The server is too old or does not allow what is needed.
    #[error(
        "NATS refuses to {action} ({code}: {text}); nats-server 2.12 or newer with JetStream is needed"
    )]
    Refused {
        /// What was asked for.
        action: &'static str,
        /// JetStream's error code.
        code: u64,
        /// Its words.
        text: String,
    },
    /// A message in the stream is none of ours.
    #[error(
        "message {sequence} of {subject} cannot be read; it was written by something newer or something else"
    )]
    Unreadable {
        /// Its subject.
        subject: String,
        /// Its stream sequence.
        sequence: u64,
        /// Why.
        #[source]
        source: Cause,
    },
}

impl StreamError {
    /// Whether the same request may succeed later by itself.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    pub(crate) fn away<E: Into<Cause>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Away {
            action,
            source: source.into(),
        }
    }
}

/// Why sinks cannot be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The stream cannot be used.
    #[error("cannot use the stream")]
    Stream(#[from] StreamError),
    /// A block stays open.
    #[error(
        "a block or a close of partition {partition} is under way and does not end (key {key} of bucket {bucket}); \
         let its sink run and finish, then try again"
    )]
    Busy {
        /// The partition.
        partition: u16,
        /// Key of the record.
        key: String,
        /// Bucket of the record.
        bucket: &'static str,
    },
    /// Another run works on the store.
    #[error(
        "another `memwide redecode` works on this store: {who}; wait until it has ended (one that is not renewed for {life_s} s \
         is over)"
    )]
    Taken {
        /// Who, and since when.
        who: String,
        /// Seconds after which a silent one is over.
        life_s: u64,
    },
    /// This run was not heard of for so long that another one began.
    #[error(
        "this run was not heard of for a while (it or NATS stood still), and {who} has begun another; what is stored is as it \
         was, or wholly made: run it again when the other has ended"
    )]
    Lost {
        /// Who has it.
        who: String,
    },
    /// NATS stays away.
    #[error(
        "NATS did not {what} within {waited_s} s; see that it runs and is reached, then try again"
    )]
    Away {
        /// What was asked for.
        what: &'static str,
        /// How long.
        waited_s: u64,
    },
    /// NATS is there and does not let this one in.
    #[error(
        "NATS at {url} does not let `memwide redecode` in; set `token` in [nats] as the aggregators and sinks have it \
         (or MEMWIDE_NATS__TOKEN)"
    )]
    NotLetIn {
        /// The servers.
        url: String,
    },
    /// What this process is cannot be found out.
    #[error("cannot read /proc")]
    Machine(#[source] std::io::Error),
}

/// Why an aggregator ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AggregatorError {
    /// The configuration does not fit together.
    #[error("{0}")]
    Config(String),
    /// The stream cannot be used.
    #[error("cannot use the stream")]
    Stream(#[from] StreamError),
    /// The listener failed.
    #[error("cannot serve gRPC")]
    Serve(#[source] tonic::transport::Error),
    /// One of the tasks failed.
    #[error("a part of the aggregator failed")]
    Run(#[from] memwide_service::run::RunError),
}

/// Why a sink ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The configuration does not fit together.
    #[error("{0}")]
    Config(String),
    /// The stream cannot be used.
    #[error("cannot use the stream")]
    Stream(#[from] StreamError),
    /// The store cannot be used.
    #[error("cannot use the store")]
    Store(#[from] StoreError),
    /// The block record is older than the store remembers its tokens.
    #[error(
        "the open block {first}-{last} of partition {partition} is {age_days} days old; the store may have forgotten \
         what it holds of it. Compare `samples` with `ledger_1m`, then mark key {key} of bucket {bucket} as done"
    )]
    TooOld {
        /// The partition.
        partition: u16,
        /// First stream sequence.
        first: u64,
        /// Last stream sequence.
        last: u64,
        /// Age of the record, in days.
        age_days: u64,
        /// Key of the record.
        key: String,
        /// Bucket of the record.
        bucket: &'static str,
    },
    /// Messages of an open block are no longer in the stream.
    #[error(
        "messages of the open block {first}-{last} of partition {partition} are gone from the stream ({found} of them \
         left): restore the stream, or mark the record as done and expect the ledger to show a hole"
    )]
    Gone {
        /// The partition.
        partition: u16,
        /// First stream sequence.
        first: u64,
        /// Last stream sequence.
        last: u64,
        /// Messages found.
        found: u64,
    },
}
