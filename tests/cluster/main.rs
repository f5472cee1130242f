//! The daemon against a real API server and real git: one control plane and one daemon for most tests.

#![cfg(test)]

mod api;
mod charts;
mod contract;
mod crash;
mod diff;
mod disk;
mod drift;
mod failures;
mod gates;
mod git;
mod hostile;
mod manifests;
mod options;
mod outage;
mod overload;
mod path;
mod people;
mod quiet;
mod restarts;
mod scenarios;
mod status;
mod statuses;
mod support;
mod swap;
mod tenants;
mod values;
mod walk;
