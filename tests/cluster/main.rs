//! The daemon against a real API server and real git: one control plane and one daemon for most tests.

#![cfg(test)]

mod api;
mod charts;
mod crash;
mod diff;
mod failures;
mod git;
mod hostile;
mod manifests;
mod outage;
mod path;
mod people;
mod quiet;
mod support;
mod swap;
mod tenants;
mod walk;
