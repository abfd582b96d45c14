//! The connection to NATS and the stream: made with the settings that the fence rests on, refused with others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use memwide_proto::{subject, v1};
use memwide_service::CancellationToken;
use memwide_service::admin::Readiness;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use prost::Message as _;

use crate::config::NatsConfig;
use crate::error::StreamError;

/// Key of the stream's metadata that holds the number of partitions.
const PARTITIONS_KEY: &str = "memwide.partitions";

/// JetStream's code for "there is no such stream".
const STREAM_NOT_FOUND: u64 = 10_059;
/// JetStream's code for "there is no such message".
const MESSAGE_NOT_FOUND: u64 = 10_037;

/// First pause after a failed request.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause after failed requests.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Messages the client may buffer for one subscription.
const SUBSCRIPTION_MESSAGES: usize = 4_096;

/// A connection and what is needed to talk to the stream; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Nats {
    pub(crate) client: async_nats::Client,
    pub(crate) context: jetstream::Context,
}

/// Connects; comes back at once, also when no server is there yet. The condition `nats` tells whether one is.
pub(crate) async fn connect(
    config: &NatsConfig,
    name: &'static str,
    readiness: &Readiness,
) -> Result<Nats, StreamError> {
    let mut servers = Vec::new();
    for url in config
        .url
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
    {
        let parsed = url.parse::<async_nats::ServerAddr>();
        servers.push(parsed.map_err(|source| StreamError::Url {
            url: url.to_owned(),
            source: source.into(),
        })?);
    }
    let condition = readiness.expect("nats", away(&config.url));
    let url = config.url.clone();
    let told = AtomicBool::new(false);
    let mut options = async_nats::ConnectOptions::new()
        .name(format!("memwide-{name}"))
        .retry_on_initial_connect()
        .connection_timeout(Duration::from_secs(2))
        .request_timeout(Some(config.request_timeout()))
        .ping_interval(Duration::from_secs(10))
        .subscription_capacity(SUBSCRIPTION_MESSAGES)
        .reconnect_delay_callback(|attempts| {
            let factor = 1 << u32::try_from(attempts).unwrap_or(u32::MAX).min(5);
            (FIRST_PAUSE * factor).min(LONGEST_PAUSE)
        })
        .event_callback(move |event| {
            match &event {
                async_nats::Event::Connected => condition.holds(),
                async_nats::Event::Disconnected => condition.fails(away(&url)),
                event if is_refusal(event) => {
                    condition.fails(not_let_in(&url));
                    // ATOMICS: said once; nothing else hangs on it.
                    if !told.swap(true, Ordering::Relaxed) {
                        tracing::error!(
                            client = name,
                            url,
                            "NATS does not let this client in; set `token` as the server has it"
                        );
                    }
                }
                _ => {}
            }
            heard(name, &event);
            std::future::ready(())
        });
    if let Some(token) = config.token.expose() {
        options = options.token(token.to_owned());
    }
    let client = options
        .connect(servers)
        .await
        .map_err(|source| StreamError::Url {
            url: config.url.clone(),
            source: source.into(),
        })?;
    let mut context = jetstream::new(client.clone());
    context.set_timeout(config.request_timeout());
    Ok(Nats { client, context })
}

fn away(url: &str) -> String {
    format!("no server answers at {url}; trying on")
}

pub(crate) fn not_let_in(url: &str) -> String {
    format!("NATS at {url} does not let this client in; set `token` of [nats] as the server has it")
}

/// The server's word on a token or password that is not its own; the client tries on all the same.
fn is_refusal(event: &async_nats::Event) -> bool {
    use async_nats::{ClientError, ConnectErrorKind, Event};
    let kinds = [
        ConnectErrorKind::AuthorizationViolation,
        ConnectErrorKind::Authentication,
    ];
    matches!(event, Event::ClientError(ClientError::Other(text)) if kinds.iter().any(|kind| kind.to_string() == *text))
}

fn heard(name: &'static str, event: &async_nats::Event) {
    match event {
        async_nats::Event::Connected => tracing::info!(client = name, "connected to NATS"),
        async_nats::Event::Disconnected => {
            tracing::warn!(client = name, "lost the connection to NATS");
        }
        other => tracing::debug!(client = name, event = %other, "event of the NATS client"),
    }
}

/// Repeats `request` with growing pauses until it works, fails for good, or `stop` is cancelled (`None`).
pub(crate) async fn patiently<T, F>(
    what: &'static str,
    stop: &CancellationToken,
    mut request: impl FnMut() -> F,
) -> Result<Option<T>, StreamError>
where
    F: Future<Output = Result<T, StreamError>>,
{
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let failure = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(None),
            outcome = request() => match outcome {
                Ok(value) => return Ok(Some(value)),
                Err(failure) if failure.is_retryable() => failure,
                Err(failure) => return Err(failure),
            },
        };
        if backoff.attempts() == 3 {
            tracing::warn!(what, error = %Chain(&failure), "NATS does not answer; trying on");
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

fn wanted(config: &NatsConfig, partitions: u16) -> stream::Config {
    stream::Config {
        name: subject::STREAM.to_owned(),
        description: Some(
            "rows on their way to the store, and the cursor of each partition".to_owned(),
        ),
        subjects: subject::SUBJECTS.map(str::to_owned).to_vec(),
        retention: stream::RetentionPolicy::Limits,
        discard: stream::DiscardPolicy::New,
        storage: stream::StorageType::File,
        max_bytes: i64::try_from(config.stream_bytes_max).unwrap_or(i64::MAX),
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        num_replicas: config.replicas,
        allow_direct: true,
        allow_atomic_publish: true,
        metadata: HashMap::from([(PARTITIONS_KEY.to_owned(), partitions.to_string())]),
        ..stream::Config::default()
    }
}

/// Partitions of the stream that is there; asked once.
pub(crate) async fn partitions_of(nats: &Nats) -> Result<u16, StreamError> {
    let mut stream = nats
        .context
        .get_stream(subject::STREAM)
        .await
        .map_err(StreamError::away("give the stream"))?;
    let info = stream
        .info()
        .await
        .map_err(StreamError::away("give the stream"))?;
    let told = info.config.metadata.get(PARTITIONS_KEY);
    let told = told.cloned().unwrap_or_default();
    told.parse().map_err(|_| StreamError::WrongSetting {
        stream: subject::STREAM.to_owned(),
        setting: "number of partitions",
        have: told,
        want: "a number".to_owned(),
    })
}

/// What an existing stream must have like a new one; its size may be changed by an operator.
fn compare(have: &stream::Config, want: &stream::Config) -> Result<(), StreamError> {
    let partitions = |config: &stream::Config| {
        config
            .metadata
            .get(PARTITIONS_KEY)
            .cloned()
            .unwrap_or_default()
    };
    let subjects = |config: &stream::Config| {
        let mut subjects = config.subjects.clone();
        subjects.sort();
        subjects.join(", ")
    };
    let max_age = |config: &stream::Config| format!("{:?}", config.max_age);
    let row = |setting, have: String, want: String| (setting, have, want);
    let rows = [
        row(
            "retention",
            format!("{:?}", have.retention),
            format!("{:?}", want.retention),
        ),
        row(
            "discard",
            format!("{:?}", have.discard),
            format!("{:?}", want.discard),
        ),
        row(
            "storage",
            format!("{:?}", have.storage),
            format!("{:?}", want.storage),
        ),
        row("max_age", max_age(have), max_age(want)),
        row(
            "max_msgs",
            have.max_messages.to_string(),
            want.max_messages.to_string(),
        ),
        row(
            "max_msgs_per_subject",
            have.max_messages_per_subject.to_string(),
            "-1".to_owned(),
        ),
        row(
            "allow_atomic",
            have.allow_atomic_publish.to_string(),
            "true".to_owned(),
        ),
        row(
            "allow_direct",
            have.allow_direct.to_string(),
            "true".to_owned(),
        ),
        row(
            "deny_purge",
            have.deny_purge.to_string(),
            "false".to_owned(),
        ),
        row(
            "num_replicas",
            have.num_replicas.to_string(),
            want.num_replicas.to_string(),
        ),
        row("subjects", subjects(have), subjects(want)),
        row("number of partitions", partitions(have), partitions(want)),
    ];
    for (setting, have, want) in rows {
        if have != want {
            return Err(StreamError::WrongSetting {
                stream: subject::STREAM.to_owned(),
                setting,
                have,
                want,
            });
        }
    }
    Ok(())
}

/// Makes the stream, or checks the one that is there.
pub(crate) async fn ensure(
    nats: &Nats,
    config: &NatsConfig,
    partitions: u16,
) -> Result<(), StreamError> {
    use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
    let want = wanted(config, partitions);
    let found = match nats.context.get_stream(subject::STREAM).await {
        Ok(found) => found.cached_info().config.clone(),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(answer) if answer.error_code().0 == STREAM_NOT_FOUND => {
                match nats.context.create_stream(want.clone()).await {
                    Ok(made) => made.cached_info().config.clone(),
                    Err(error) => {
                        return Err(match error.kind() {
                            CreateStreamErrorKind::JetStream(answer) => {
                                refused("create the stream", &answer)
                            }
                            _ => StreamError::away("create the stream")(error),
                        });
                    }
                }
            }
            GetStreamErrorKind::JetStream(answer) => {
                return Err(refused("describe the stream", &answer));
            }
            _ => return Err(StreamError::away("describe the stream")(error)),
        },
    };
    compare(&found, &want)?;
    if found.max_bytes != want.max_bytes {
        let changed = stream::Config {
            max_bytes: want.max_bytes,
            ..found
        };
        let updated = nats.context.update_stream(changed).await;
        updated.map_err(StreamError::away("change the size of the stream"))?;
    }
    Ok(())
}

/// JetStream's word: final where the request itself is wrong, "not now" where the server is not ready.
fn refused(action: &'static str, answer: &jetstream::Error) -> StreamError {
    let (status, code) = (answer.code(), answer.error_code().0);
    if status == 503 || code == 10_008 || code == 10_058 {
        return StreamError::away(action)(answer.clone());
    }
    StreamError::Refused {
        action,
        code,
        text: answer.to_string(),
    }
}

/// A partition's cursor as the stream's leader has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CursorRead {
    /// The cursor; `None`: there is none yet.
    pub cursor: Option<v1::Cursor>,
    /// Its stream sequence; 0: there is none yet.
    pub sequence: u64,
}

/// Reads a partition's cursor from the leader.
pub(crate) async fn read_cursor(nats: &Nats, partition: u16) -> Result<CursorRead, StreamError> {
    use async_nats::jetstream::stream::LastRawMessageErrorKind;
    let subject = subject::cursor(partition);
    let stream = nats.context.get_stream_no_info(subject::STREAM).await;
    let stream = stream.map_err(StreamError::away("give the cursor"))?;
    let message = match stream.get_last_raw_message_by_subject(&subject).await {
        Ok(message) => message,
        Err(error) => {
            return match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(CursorRead::default()),
                LastRawMessageErrorKind::JetStream(answer)
                    if answer.error_code().0 == MESSAGE_NOT_FOUND =>
                {
                    Ok(CursorRead::default())
                }
                _ => Err(StreamError::away("give the cursor")(error)),
            };
        }
    };
    let cursor = v1::Cursor::decode(message.payload).map_err(|source| StreamError::Unreadable {
        subject,
        sequence: message.sequence,
        source: source.into(),
    })?;
    Ok(CursorRead {
        cursor: Some(cursor),
        sequence: message.sequence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_with_a_setting_that_breaks_the_fence_is_refused_by_name() {
        let want = wanted(&NatsConfig::default(), 4);
        compare(&want, &want).unwrap();
        let check = |setting: &str, change: fn(&mut stream::Config)| {
            let mut have = want.clone();
            change(&mut have);
            let refused = compare(&have, &want).unwrap_err();
            assert!(
                matches!(refused, StreamError::WrongSetting { setting: s, .. } if s == setting),
                "{refused}"
            );
        };
        check("retention", |c| {
            c.retention = stream::RetentionPolicy::WorkQueue;
        });
        check("discard", |c| c.discard = stream::DiscardPolicy::Old);
        check("max_age", |c| c.max_age = Duration::from_mins(1));
        check("allow_atomic", |c| c.allow_atomic_publish = false);
        check("max_msgs_per_subject", |c| c.max_messages_per_subject = 1);
        check("number of partitions", |c| {
            c.metadata.insert(PARTITIONS_KEY.to_owned(), "8".to_owned());
        });
    }
}
