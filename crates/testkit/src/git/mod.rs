//! A git server over smart HTTP, and repositories to serve.

mod cgi;
mod repository;
mod server;

pub use repository::GitRepository;
pub use server::{GitOptions, GitServer};
