//! The HelmRelease API on a real API server.
