//! Failures of one kind each.

use crate::oracle::Truth;
use crate::source::Order;
use memwide_tests::{Deployment, tools_missing, until};
use std::path::Path;
use std::time::Duration;

/// Something that takes a service seconds; slow machines under load included.
pub(crate) const SOON: Duration = Duration::from_mins(1);

pub(crate) fn skip() -> bool {
    let missing = tools_missing();
    if let Some(missing) = &missing {
        eprintln!("skipped: {missing}");
    }
    missing.is_some()
}

pub(crate) fn says(deployment: &Deployment, name: &str, what: &str) -> bool {
    let said = deployment.readiness(name);
    said.is_err_and(|why| why.contains(what))
}

#[test]
fn a_sink_that_starts_before_its_store_waits_for_it() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    deployment.kill("sink-1");
    deployment.kill("engine");
    deployment.run("sink-1");
    until("the sink says that it waits", SOON, || {
        says(&deployment, "sink-1", "store: ")
    });
    deployment.run("engine");
    deployment.wait_ready("sink-1");
}

pub(crate) fn finish(deployment: &mut Deployment, name: &str, order: &Order) {
    std::fs::write(order.last_call(), "").unwrap();
    until("everything is committed", 2 * SOON, || {
        deployment.ended(name) == Some(true)
    });
}

pub(crate) fn diary(order: &Order) -> Truth {
    let diary = std::fs::read_to_string(order.diary()).unwrap();
    Truth::read(&order.name, order.samples, &diary)
}

pub(crate) fn order(deployment: &Deployment, name: &str, folder: &Path) -> Order {
    std::fs::create_dir_all(folder).unwrap();
    Order {
        name: name.to_owned(),
        endpoint: deployment.endpoint("decoder-1"),
        folder: folder.to_owned(),
        samples: 300,
        spool_bytes: 16 << 20,
        steps: Vec::new(),
    }
}
