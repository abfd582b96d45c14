use super::*;
use std::time::Duration;

crate::label_set! {
    /// Why.
    enum Reason("reason") { Gap => "gap", Malformed => "malformed" }
}

mod declared {
    use super::Reason;
    crate::declare_metrics! {
        pub(super) counter SENT = "test_sent_batches_total", Batches, "Batches sent.";
        pub(super) counter BLIND = "test_blind_seconds_total", Seconds, "Time not seen.";
        pub(super) counter REFUSED = "test_refused_batches_total", Batches, "Batches refused.", by Reason;
        pub(super) gauge QUEUE = "test_queue_bytes", Bytes, "Bytes waiting.";
        pub(super) gauge SHARE = "test_lost_ratio", Ratio, "Share lost.";
        pub(super) gauge OPEN = "test_open_files", Files, "Open files.", by Reason;
        pub(super) histogram FLUSH = "test_flush_seconds", Seconds, "Time to flush.", [0.5, 1.0, 2.5];
    }
}
use declared::{ALL, BLIND, FLUSH, OPEN, QUEUE, REFUSED, SENT, SHARE};

#[test]
fn the_text_has_help_type_and_every_sample() {
    SENT.add(3);
    BLIND.add(1);
    BLIND.add_duration(Duration::from_millis(250));
    REFUSED.add(Reason::Malformed, 2);
    QUEUE.add(100);
    QUEUE.sub(30);
    SHARE.set_f64(0.25);
    OPEN.set(Reason::Gap, 5);
    for value in [0.5, 0.7, 99.0] {
        FLUSH.observe(value);
    }
    let text = Registry::new().with(ALL).render();
    let expected = "\
# HELP test_blind_seconds_total Time not seen.
# TYPE test_blind_seconds_total counter
test_blind_seconds_total 1.25
# HELP test_flush_seconds Time to flush.
# TYPE test_flush_seconds histogram
test_flush_seconds_bucket{le=\"0.5\"} 1
test_flush_seconds_bucket{le=\"1\"} 2
test_flush_seconds_bucket{le=\"2.5\"} 2
test_flush_seconds_bucket{le=\"+Inf\"} 3
test_flush_seconds_sum 100.2
test_flush_seconds_count 3
# HELP test_lost_ratio Share lost.
# TYPE test_lost_ratio gauge
test_lost_ratio 0.25
# HELP test_open_files Open files.
# TYPE test_open_files gauge
test_open_files{reason=\"gap\"} 5
test_open_files{reason=\"malformed\"} 0
# HELP test_queue_bytes Bytes waiting.
# TYPE test_queue_bytes gauge
test_queue_bytes 70
# HELP test_refused_batches_total Batches refused.
# TYPE test_refused_batches_total counter
test_refused_batches_total{reason=\"gap\"} 0
test_refused_batches_total{reason=\"malformed\"} 2
# HELP test_sent_batches_total Batches sent.
# TYPE test_sent_batches_total counter
test_sent_batches_total 3
";
    assert!(text.starts_with(expected), "{text}");
    for name in [
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
    ] {
        assert!(text.contains(&format!("\n{name} ")), "{name} is missing");
    }
    assert_eq!(SENT.get(), 3);
    assert_eq!(BLIND.get(), 1);
    assert_eq!(REFUSED.get(Reason::Malformed), 2);
    assert_eq!(QUEUE.get(), 70);
    assert_eq!(FLUSH.count(), 3);
}

#[test]
fn the_catalogue_has_one_line_a_metric() {
    let catalogue = Registry::new().with(ALL).catalogue();
    let expected = "\
test_blind_seconds_total counter seconds: Time not seen.
test_flush_seconds histogram seconds: Time to flush.
test_lost_ratio gauge ratio: Share lost.
test_open_files gauge files reason=gap|malformed: Open files.
test_queue_bytes gauge bytes: Bytes waiting.
test_refused_batches_total counter batches reason=gap|malformed: Batches refused.
test_sent_batches_total counter batches: Batches sent.
";
    assert_eq!(catalogue, expected);
}

#[test]
fn a_name_declared_twice_is_found() {
    let registry = Registry::new().with(ALL).with(&[&SENT]);
    assert_eq!(registry.declared_twice(), ["test_sent_batches_total"]);
}
