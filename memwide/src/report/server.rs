//! Sort keys as a question to a query service: `functions` or `breakdown`.

use memwide_analysis::report::{Estimator, Key};

/// Keys that lead to functions.
const OF_FUNCTIONS: [Key; 3] = [Key::Symbol, Key::Dso, Key::Event];

/// Keys a server knows how to spread samples over, with its name for them.
const OF_BREAKDOWN: [(Key, &str); 8] = [
    (Key::Mem, "level"),
    (Key::Level, "level"),
    (Key::Outcome, "level"),
    (Key::Locality, "locality"),
    (Key::Op, "op"),
    (Key::Context, "context"),
    (Key::Snoop, "snoop"),
    (Key::Event, "event"),
];

/// A report no question of a server gives.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ServerError {
    /// Keys of both questions, or of none.
    #[error(
        "a server does not answer --sort {keys}; it sorts by symbol,dso,event, or by any of \
         mem,level,outcome,locality,op,context,snoop,event; for other mixtures ask `memwide sql`"
    )]
    Keys { keys: String },
    /// An estimator that is not stored.
    #[error("a server does not order by {by}; it orders functions by samples or weight")]
    Estimator { by: &'static str },
}

/// Path and parameters of a question.
type Question = (&'static str, Vec<(String, String)>);

/// The question that answers these keys.
pub(crate) fn question(keys: &[Key], by: Option<Estimator>) -> Result<Question, ServerError> {
    if keys.iter().all(|key| OF_FUNCTIONS.contains(key))
        && keys.iter().any(|key| *key != Key::Event)
    {
        let by = by.unwrap_or(Estimator::Samples);
        return match by {
            Estimator::Samples | Estimator::Weight => {
                Ok(("functions", vec![("by".to_owned(), by.name().to_owned())]))
            }
            by => Err(ServerError::Estimator { by: by.name() }),
        };
    }
    let known = |key: &Key| {
        OF_BREAKDOWN
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, name)| *name)
    };
    let names: Option<Vec<&str>> = keys.iter().map(known).collect();
    let Some(mut names) = names.filter(|names| !names.is_empty()) else {
        let keys: Vec<&str> = keys.iter().map(|key| key.name()).collect();
        return Err(ServerError::Keys {
            keys: keys.join(","),
        });
    };
    if let Some(by) = by.filter(|by| *by != Estimator::Samples) {
        return Err(ServerError::Estimator { by: by.name() });
    }
    names.dedup();
    Ok(("breakdown", vec![("by".to_owned(), names.join(","))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_the_question() {
        let ask =
            |keys: &[Key], by| question(keys, by).map(|(path, params)| (path, params[0].1.clone()));
        let fine = |path, by: &str| Ok((path, by.to_owned()));
        assert_eq!(ask(&[Key::Symbol], None), fine("functions", "samples"));
        assert_eq!(
            ask(&[Key::Symbol, Key::Dso], Some(Estimator::Weight)),
            fine("functions", "weight")
        );
        assert_eq!(
            ask(&[Key::Mem, Key::Locality], None),
            fine("breakdown", "level,locality")
        );
        assert_eq!(
            ask(&[Key::Level, Key::Outcome], None),
            fine("breakdown", "level")
        );
        assert_eq!(ask(&[Key::Event], None), fine("breakdown", "event"));
    }

    #[test]
    fn what_no_question_gives_is_refused_with_what_works() {
        for keys in [&[Key::Symbol, Key::Mem][..], &[Key::Tid], &[]] {
            let wrong = question(keys, None).unwrap_err().to_string();
            assert!(
                wrong.contains("symbol,dso,event") && wrong.contains("memwide sql"),
                "{wrong}"
            );
        }
        assert!(question(&[Key::Symbol], Some(Estimator::Period)).is_err());
        assert!(question(&[Key::Mem], Some(Estimator::Weight)).is_err());
    }
}
