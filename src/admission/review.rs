//! Answers the API server's question whether a HelmRelease may be stored.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use axum::{Json, Router};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use kube::core::response::{Status, StatusSummary};

use crate::api::{HelmRelease, odd_input};
use crate::operator::{Settings, complaints, schema_complaint};
use crate::source::Sources;
use crate::telemetry::Metrics;

/// The most bytes of a review: it holds the object twice, and etcd takes 1.5 MiB.
const MAX_REVIEW: usize = 8 << 20;
/// The most complaints in one answer.
const MOST: usize = 10;

/// Looks at HelmReleases.
#[derive(Debug)]
pub struct Reviewer {
    /// What the flags set.
    pub settings: Settings,
    /// Where charts come from.
    pub sources: Sources,
    /// Where answers are counted.
    pub metrics: Metrics,
}

/// `POST /validate`.
pub fn review_routes(reviewer: Reviewer) -> Router {
    Router::new()
        .route("/validate", post(validate))
        .layer(DefaultBodyLimit::max(MAX_REVIEW))
        .with_state(Arc::new(reviewer))
}

type Review = AdmissionReview<DynamicObject>;

async fn validate(
    State(reviewer): State<Arc<Reviewer>>,
    Json(review): Json<Review>,
) -> Json<Review> {
    let request: Result<AdmissionRequest<DynamicObject>, _> = review.try_into();
    let answer = match request {
        Ok(request) => reviewer.answer(&request).await,
        Err(error) => AdmissionResponse::invalid(error.to_string()),
    };
    reviewer.metrics.count_review(answer.allowed);
    Json(answer.into_review())
}

impl Reviewer {
    async fn answer(&self, request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let mut answer = AdmissionResponse::from(request);
        let Some(object) = request.object.as_ref() else {
            return answer;
        };
        if object.metadata.deletion_timestamp.is_some() || is_same_spec(request) {
            // What is stored already may be annotated, and has to be able to go.
            return answer;
        }
        let release = match read(object, request.namespace.as_deref()) {
            Ok(release) => release,
            Err(error) => return refuse(answer, &[format!("it cannot be read: {error}")]),
        };
        answer.warnings = Some(odd_input(&release, request.old_object.is_none()))
            .filter(|warnings| !warnings.is_empty());
        let mut faults = complaints(&release, &self.settings);
        if faults.is_empty() {
            let schema = schema_complaint(&release, &self.settings, &self.sources).await;
            faults.extend(schema);
        }
        if faults.is_empty() {
            answer
        } else {
            refuse(answer, &faults)
        }
    }
}

/// An update of labels, annotations, finalizers.
fn is_same_spec(request: &AdmissionRequest<DynamicObject>) -> bool {
    let (Some(new), Some(old)) = (&request.object, &request.old_object) else {
        return false;
    };
    request.operation == Operation::Update && new.data.get("spec") == old.data.get("spec")
}

fn read(object: &DynamicObject, namespace: Option<&str>) -> Result<HelmRelease, serde_json::Error> {
    let mut release: HelmRelease = serde_json::from_value(serde_json::to_value(object)?)?;
    if release.metadata.namespace.is_none() {
        release.metadata.namespace = namespace.map(str::to_owned);
    }
    if release.metadata.name.is_none() {
        // `generateName`: the API server asks before it makes the name.
        release
            .metadata
            .name
            .clone_from(&release.metadata.generate_name);
    }
    Ok(release)
}

/// Refused as the API server refuses what its own rules forbid.
fn refuse(mut answer: AdmissionResponse, faults: &[String]) -> AdmissionResponse {
    let told = faults.iter().take(MOST).cloned();
    let more = faults.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {more} more"));
    let text = told.chain(more).collect::<Vec<_>>().join("; ");
    answer.allowed = false;
    answer.result = Status {
        status: Some(StatusSummary::Failure),
        message: text,
        reason: "Invalid".to_owned(),
        code: 422,
        ..Status::default()
    };
    answer
}
