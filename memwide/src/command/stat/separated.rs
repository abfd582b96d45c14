//! Lines as `perf stat -x` writes them, for scripts that read those.

use super::{Measured, Measurement};
use std::io::{self, Write};

/// `[time,]count,unit,event,[spread,]runtime,percentage,metric,unit`.
pub(super) fn write(
    out: &mut impl Write,
    measurement: &Measurement,
    separator: &str,
) -> io::Result<()> {
    let repeated = measurement.seconds.len() > 1;
    for event in &measurement.events {
        let mut fields = Vec::new();
        if let Some(until) = measurement.until_s {
            fields.push(format!("{until:>16.9}"));
        }
        fields.push(match (event.value(), &event.absent) {
            (_, Some(_)) => "<not supported>".to_owned(),
            (None, None) => "<not counted>".to_owned(),
            (Some(value), None) if event.is_time => format!("{value:.2}"),
            (Some(value), None) => format!("{value:.0}"),
        });
        fields.push(event.unit().to_owned());
        fields.push(event.name.clone());
        if repeated {
            let spread = event.relative_error().unwrap_or_default() * 100.0;
            fields.push(format!("{spread:.2}%"));
        }
        let runs = u64::try_from(event.runs.len().max(1)).unwrap_or(1);
        let total = event.total();
        fields.push((total.running_ns / runs).to_string());
        let share = total.running_share().map_or(100.0, |share| share * 100.0);
        fields.push(format!("{share:.2}"));
        let (metric, unit) = metric(measurement, event).unwrap_or_default();
        fields.extend([metric, unit]);
        writeln!(out, "{}", fields.join(separator))?;
    }
    Ok(())
}

/// What perf shows beside a count: CPUs in use, a share, or the rate a second of CPU time.
fn metric(measurement: &Measurement, event: &Measured) -> Option<(String, String)> {
    let value = event.value()?;
    if event.is_time {
        let related = measurement.related(event)?;
        return Some((
            format!("{:.3}", related.estimate.value),
            "CPUs utilized".to_owned(),
        ));
    }
    if let Some(related) = measurement.related(event) {
        let name = related.of.to_owned();
        let value = related.estimate.value;
        return Some(if related.is_share {
            (format!("{:.2}", value * 100.0), name)
        } else {
            (format!("{value:.2}"), name)
        });
    }
    let clock = measurement
        .events
        .iter()
        .find(|known| known.is_time && known.name.starts_with("task-clock"))?;
    let seconds = clock.value()? / 1e3;
    if seconds <= 0.0 {
        return None;
    }
    let rate = value / seconds;
    let (by, unit) = [(1e9, "G/sec"), (1e6, "M/sec"), (1e3, "K/sec")]
        .into_iter()
        .find(|(by, _)| rate >= *by)
        .unwrap_or((1.0, "/sec"));
    Some((format!("{:.3}", rate / by), unit.to_owned()))
}
