//! Releases on the real API server, alone and together with the stock helm.

#![cfg(test)]

mod actions;
mod crash;
mod faults;
mod full;
mod interop;
mod safety;
mod same;
mod support;
