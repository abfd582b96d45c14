//! Aggregator and sink against the real nats-server and the real engine. Where one of them is absent, each test says
//! loudly that it skips.

mod faults;
mod feed;
mod pipeline;
mod proxy;
mod support;
mod throughput;
