//! Replicas against a real API server: elections, stopped and cut off leaders, rolling updates, shards.
//!
//! Two oracles judge each test. The history of each release has one deployed revision, no gap and nothing pending; and
//! the audit log of the API server shows no write by a replica that did not write the Lease last.

#![cfg(test)]

mod clocks;
mod fleet;
mod leader;
mod shards;
