//! Asks rules again and again, and tells what changed.

use std::time::Duration;

use memwide_service::tls::TLS;
use serde_json::Value as Json;

use super::{Rule, Standing, State, described, judge};
use crate::http::{Format, Statement, run_sql};
use crate::metrics::{self, Delivery, Stand};
use crate::service::Service;

/// Seconds between askings unless the rule says otherwise.
const EVERY_S: u64 = 60;
/// Rows that are kept and told.
const ROWS_MAX: usize = 20;
/// Times a webhook is tried, and seconds it may take.
const TRIES: u32 = 3;
const TIMEOUT_S: u64 = 10;

/// Keeps all rules of a service; never ends.
pub(crate) async fn keep(service: Service) {
    let rules = service.rules().all().iter().cloned();
    let tasks: Vec<_> = rules
        .map(|rule| tokio::spawn(watch(service.clone(), rule)))
        .collect();
    let _ended = Ended(tasks);
    std::future::pending::<()>().await;
}

/// Ends the tasks with their keeper.
struct Ended(Vec<tokio::task::JoinHandle<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn watch(service: Service, rule: Rule) {
    let every = match rule.every_seconds {
        0 => EVERY_S,
        seconds => seconds,
    };
    let mut ticks = tokio::time::interval(Duration::from_secs(every));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // What was told last: a rule that could not be asked still stands as it stood.
    let mut told = Standing::Quiet;
    loop {
        ticks.tick().await;
        let before = service.rules().state(&rule.name);
        let now_ns = Service::now_ns();
        let (standing, mut rows, problem) = match asked(&service, &rule, now_ns).await {
            Ok(rows) if rows.is_empty() => (Standing::Quiet, rows, String::new()),
            Ok(rows) => (Standing::Firing, rows, String::new()),
            Err(problem) => (Standing::Failed, Vec::new(), problem),
        };
        rows.truncate(ROWS_MAX);
        let changed = standing != before.standing;
        let state = State {
            standing,
            since_ns: if changed { now_ns } else { before.since_ns },
            asked_ns: now_ns,
            rows,
            problem,
        };
        let says = described(&rule, &state);
        service.rules().set(&rule.name, state);
        for (label, of) in [
            (Stand::Quiet, Standing::Quiet),
            (Stand::Firing, Standing::Firing),
            (Stand::Failed, Standing::Failed),
        ] {
            metrics::STANDING.set(label, service.rules().count(of) as u64);
        }
        // What a webhook did not take is told again after the next asking.
        if standing != Standing::Failed
            && standing != told
            && (rule.webhook.is_empty() || deliver(&rule, says).await)
        {
            told = standing;
        }
        if changed {
            tracing::info!(rule = rule.name, state = standing.name(), "a rule changed");
        }
    }
}

/// Rows that fire.
async fn asked(service: &Service, rule: &Rule, now_ns: u64) -> Result<Vec<Json>, String> {
    let answer = if rule.question.is_empty() {
        let statement = Statement {
            query: rule.sql.clone(),
            params: Vec::new(),
            format: Format::Json,
        };
        let answer = run_sql(service, &statement).await;
        let (bytes, _) = answer.map_err(|problem| problem.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())?
    } else {
        let question = rule.asked(now_ns)?;
        let answer = service.answer(&question).await;
        answer.map_err(|problem| problem.to_string())?.to_json()
    };
    judge::firing(rule, &answer)
}

/// Tells a rule's webhook, and whether that took it; what it does not take is counted and said.
async fn deliver(rule: &Rule, says: Json) -> bool {
    let url = rule.webhook.clone();
    let sent = tokio::task::spawn_blocking(move || {
        let config =
            ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(TIMEOUT_S)));
        // Certificates are read for those who need them only.
        let config = if url.starts_with("https:") {
            config.tls_config(TLS.clone())
        } else {
            config
        };
        let agent: ureq::Agent = config.build().into();
        let mut last = None;
        for attempt in 0..TRIES {
            match agent.post(&url).send_json(&says) {
                Ok(_) => return None,
                Err(error) => last = Some(error.to_string()),
            }
            std::thread::sleep(Duration::from_secs(1 << attempt));
        }
        last
    })
    .await;
    let error = match sent {
        Ok(None) => {
            metrics::WEBHOOKS.add(Delivery::Taken, 1);
            return true;
        }
        Ok(Some(error)) => error,
        Err(error) => error.to_string(),
    };
    metrics::WEBHOOKS.add(Delivery::Failed, 1);
    tracing::warn!(
        rule = rule.name,
        webhook = rule.webhook,
        error,
        "a webhook did not take what a rule says; it is told again after the next asking"
    );
    false
}
