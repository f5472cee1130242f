//! Jobs, and what hooks and tests wait for: that something has run.

use serde_json::Value;

use super::{Readiness, at, conditions, number, text};

/// A Job of a release: running is good enough.
pub(super) fn job(object: &Value) -> Readiness {
    if let Some(ended) = ended_job(object) {
        return ended;
    }
    if text(at(object, "status"), "startTime").is_empty() {
        return Readiness::in_progress("Job not started");
    }
    Readiness::current(format!(
        "Job in progress. success:{}, active: {}, failed: {}",
        number(object, "status.succeeded", 0),
        number(object, "status.active", 0),
        number(object, "status.failed", 0),
    ))
}

fn ended_job(object: &Value) -> Option<Readiness> {
    let parallelism = number(object, "spec.parallelism", 1);
    let completions = number(object, "spec.completions", parallelism);
    conditions(object)
        .filter(|condition| condition.status == "True")
        .find_map(|condition| match condition.kind {
            "Complete" => Some(Readiness::current(format!(
                "Job Completed. succeeded: {}/{completions}",
                number(object, "status.succeeded", 0)
            ))),
            "Failed" => Some(Readiness::failed(format!(
                "Job Failed. failed: {}/{completions}",
                number(object, "status.failed", 0)
            ))),
            _ => None,
        })
}

/// Whether a hook or a test has run: a Job has to complete, a Pod to succeed; everything else is
/// done as soon as it exists. Jobs of a release are looked at in this way if one waits for them.
#[must_use]
pub fn run_status(object: &Value) -> Readiness {
    match (text(object, "apiVersion"), text(object, "kind")) {
        ("batch/v1" | "batch/v1beta1", "Job") => {
            ended_job(object).unwrap_or_else(|| Readiness::in_progress("Job in progress"))
        }
        ("v1", "Pod") => pod(object),
        _ => Readiness::current("Resource is current"),
    }
}

fn pod(object: &Value) -> Readiness {
    let name = text(at(object, "metadata"), "name");
    match text(at(object, "status"), "phase") {
        "Succeeded" => Readiness::current(format!("pod {name} succeeded")),
        "Failed" => Readiness::failed(format!("pod {name} failed")),
        _ => Readiness::in_progress("Pod in progress"),
    }
}
