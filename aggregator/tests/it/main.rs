//! Aggregator and sink against the real nats-server and the real engine. Where one of them is absent, each test says
//! loudly that it skips.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod feed;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod redecode;
#[cfg(test)]
mod support;
#[cfg(test)]
mod throughput;
