//! Every metric, with unit and help, as dashboards and alerts may rely on it. `MEMWIDE_REWRITE=1` writes the list anew.

use memwide_service::metrics::Registry;

#[test]
fn the_list_of_metrics_is_current() {
    let registry = Registry::new()
        .with(memwide_collector::metrics::ALL)
        .with(memwide_decoder::metrics::ALL)
        .with(memwide_aggregator::metrics::ALL)
        .with(memwide_query::metrics::ALL)
        .with(memwide_service::child::metrics::ALL);
    assert_eq!(registry.declared_twice(), [""; 0]);
    let path = crate::support::root().join("deploy/metrics.txt");
    let now = registry.catalogue();
    if std::env::var_os("MEMWIDE_REWRITE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let listed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        listed == now,
        "deploy/metrics.txt differs from the code: run `MEMWIDE_REWRITE=1 cargo test -p memwide-tests --test tidy`"
    );
}
