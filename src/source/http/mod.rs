//! Bounded HTTP for chart repositories and registries.
//!
//! Every answer is limited in bytes and in time without progress; redirects are followed here, so
//! that credentials go to no host that they are not for.

mod body;
mod client;

pub(super) use body::{read_body, read_whole};
pub(super) use client::{Answer, Http, Request, Validators, host_and_port, printable};
