//! Metrics of the query service.

use memwide_service::{declare_metrics, label_set};

use crate::problem::{Class, Problem};

label_set! {
    /// How a question ended.
    pub enum Outcome("outcome") {
        /// Answered.
        Answered => "answered",
        /// Wrong question.
        Question => "question",
        /// Refused.
        Forbidden => "forbidden",
        /// A limit was reached.
        Limit => "limit",
        /// The store was away or busy.
        Unavailable => "unavailable",
        /// Ours.
        Internal => "internal",
    }
}

label_set! {
    /// How standing rules are.
    pub enum Stand("state") {
        /// Nothing is beyond their threshold.
        Quiet => "quiet",
        /// Something is.
        Firing => "firing",
        /// They could not be asked or judged.
        Failed => "failed",
    }
}

label_set! {
    /// What became of a webhook.
    pub enum Delivery("outcome") {
        /// It was taken.
        Taken => "taken",
        /// Nobody took it.
        Failed => "failed",
    }
}

declare_metrics! {
    pub gauge STANDING = "query_standing_queries", Queries, "Standing rules, by how they are; `/api/v1/rules` names them.", by Stand;
    pub counter WEBHOOKS = "query_webhook_requests_total", Requests, "What rules told webhooks, by whether it was taken.", by Delivery;
    pub counter ANSWERED = "query_answered_requests_total", Requests, "Questions and statements, by how they ended.", by Outcome;
}

/// Counts one question.
pub(crate) fn count<T>(outcome: &Result<T, Problem>) {
    count_class(outcome.as_ref().err().map(|problem| problem.class));
}

/// The same by the class of its problem, if it has one.
pub(crate) fn count_class(problem: Option<Class>) {
    let outcome = match problem {
        None => Outcome::Answered,
        Some(Class::Forbidden) => Outcome::Forbidden,
        Some(Class::Limit) => Outcome::Limit,
        Some(Class::Unavailable) => Outcome::Unavailable,
        Some(Class::Internal) => Outcome::Internal,
        Some(Class::Question | Class::NotFound | Class::Method | Class::MediaType) => {
            Outcome::Question
        }
    };
    ANSWERED.add(outcome, 1);
}
