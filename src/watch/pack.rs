//! JSON of HelmReleases, kept small.
//!
//! A fleet keeps thousands of objects, and nearly all of their text is the same: names of fields, types of conditions,
//! sentences. Compressed with a text that holds these, an object takes a fifth of its size; to read it back takes a few
//! microseconds.

use std::sync::{Mutex, PoisonError};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// What objects have in common; what is most common comes last, where references to it are shortest.
const COMMON: &[u8] = br#"{"metadata":{"annotations":{"helm.fluxcd.io/reconcile-at":"","helm.fluxcd.io/abandon":"true"},"labels":{"app.kubernetes.io/name":"","app":"","team":""},"generateName":"","ownerReferences":[],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"helmVersion":"v3","chart":{"repository":"https://charts.","name":"","version":"1.0.0","chartPullSecret":{"name":""},"oci":{"url":"oci://","version":"","tag":""}},"maxHistory":10,"timeout":300,"wait":true,"resetValues":true,"forceUpgrade":false,"skipCRDs":false,"disableOpenAPIValidation":false,"valuesFrom":[{"configMapKeyRef":{"name":"","key":"values.yaml","optional":true}},{"secretKeyRef":{"name":"","key":"values.yaml","namespace":"","optional":false}},{"externalSourceRef":{"url":"https://"}},{"chartFileRef":{"path":""}}],"rollback":{"enable":true,"retry":true,"maxRetries":5,"timeout":300,"wait":true},"test":{"enable":true,"ignoreFailures":false},"suspend":true,"interval":"5m","dependsOn":[{"name":""}],"gates":[{"name":"","type":"ManualApproval","description":""},{"name":"","type":"ConfigMapExists","configMap":{"name":"","key":"","value":"true"}}],"createNamespace":true,"serviceAccountName":"","driftDetection":{"mode":"enabled"},"values":{"image":{"repository":"","tag":"latest","pullPolicy":"IfNotPresent"},"replicaCount":1,"resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"service":{"type":"ClusterIP","port":80},"ingress":{"enabled":false,"hosts":[]},"env":[]}},"conditions":[{"type":"Stalled","status":"True","reason":"UpgradeFailed","message":"installation failed: upgrade failed: "},{"type":"Reconciling","status":"True","reason":"ProgressingWithRetry","message":"running 'upgrade' with a timeout of 5m"},{"type":"Tested","status":"True","reason":"Tested","message":"Tested Helm release '"},{"type":"RolledBack","status":"False","reason":"RolledBack","message":"Rolled back Helm release '"},{"type":"AllGatesPassed","status":"True","reason":"GatePassed","message":"every mandatory gate passes"},{"type":"Gate-","status":"False","reason":"GateNotPassed","message":"waits for approval of sha256:"},{"apiVersion":"helm.fluxcd.io/v1","kind":"HelmRelease","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["helm.fluxcd.io/uninstall"],"generation":1,"name":"","namespace":"","resourceVersion":"","uid":""},"spec":{"chart":{"git":"https://git","ref":"main","path":"charts/","secretRef":{"name":""}},"releaseName":"","targetNamespace":"","values":{}},"status":{"observedGeneration":1,"phase":"Succeeded","releaseName":"","releaseStatus":"deployed","revision":"","lastAttemptedRevision":"","conditions":[{"type":"Ready","status":"True","reason":"InstallSucceeded","message":"release is deployed: chart -1.0.0, revision , digest sha256:","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},{"type":"ChartFetched","status":"True","reason":"ChartFetched","message":"Chart fetch was successful for Helm release '' in ''.","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},{"type":"Deployed","status":"True","reason":"Deployed","message":"Installation or upgrade succeeded for Helm release '' in ''.","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},{"type":"Released","status":"True","reason":"Succeeded","message":"Release was successful for Helm release '' in ''.","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},{"type":"Available","status":"True","reason":"Deployed","message":"the release is deployed","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},{"type":"Progressing","status":"False","reason":"UpgradeSucceeded","message":"no action is under way","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},{"type":"Degraded","status":"False","reason":"UpToDate","message":"the release is as wanted","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}],"chart":"-1.0.0","digest":"sha256:","lastAttemptedDigest":"sha256:"}}"#;

/// Fast, and nearly as small as with more effort: what counts is in the common text.
const EFFORT: u32 = 4;

/// Packs and unpacks, one text at a time. What is needed to pack takes as much memory as hundreds of objects, so it is
/// there only while there is something to do.
#[derive(Debug)]
pub(super) struct Packer {
    pack: Mutex<Option<Compress>>,
    unpack: Mutex<Decompress>,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            pack: Mutex::default(),
            unpack: Mutex::new(Decompress::new(true)),
        }
    }
}

/// A packed text.
#[derive(Debug)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
    /// Of the text.
    length: usize,
}

impl Packer {
    /// Packs a text; `None` if that cannot be done, which nothing known leads to.
    pub(super) fn pack(&self, text: &[u8]) -> Option<Packed> {
        let mut state = self.pack.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state.get_or_insert_with(|| Compress::new(Compression::new(EFFORT), true));
        state.reset();
        state.set_dictionary(COMMON).ok()?;
        // What cannot be compressed grows by a few bytes for each block.
        let mut bytes = Vec::with_capacity(text.len() + text.len() / 100 + 64);
        let status = state.compress_vec(text, &mut bytes, FlushCompress::Finish);
        matches!(status, Ok(Status::StreamEnd)).then(|| Packed {
            bytes: bytes.into(),
            length: text.len(),
        })
    }

    /// Gives back the memory that is needed to pack, until there is something to pack again.
    pub(super) fn rest(&self) {
        *self.pack.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The text again; `None` for what was not packed here.
    pub(super) fn unpack(&self, packed: &Packed) -> Option<Vec<u8>> {
        let mut state = self.unpack.lock().unwrap_or_else(PoisonError::into_inner);
        state.reset(true);
        let mut text = Vec::with_capacity(packed.length);
        // The reader asks for the common text when it has seen the head.
        let asked = state.decompress_vec(&packed.bytes, &mut text, FlushDecompress::Finish);
        if asked.is_err_and(|error| error.needs_dictionary().is_none()) {
            return None;
        }
        let read = usize::try_from(state.total_in()).ok()?;
        state.set_dictionary(COMMON).ok()?;
        let rest = packed.bytes.get(read..)?;
        let status = state.decompress_vec(rest, &mut text, FlushDecompress::Finish);
        (matches!(status, Ok(Status::StreamEnd)) && text.len() == packed.length).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_takes_a_fifth() {
        let packer = Packer::default();
        let conditions: Vec<String> = ["Ready", "ChartFetched", "Deployed", "Released", "Available", "Progressing", "Degraded"]
            .iter()
            .map(|of| format!(
                "{{\"type\":\"{of}\",\"status\":\"True\",\"reason\":\"{of}\",\"message\":\"{of} for Helm release 'web' in 'apps'.\",\
                 \"lastUpdateTime\":\"2026-11-29T21:08:11Z\",\"lastTransitionTime\":\"2026-11-29T21:08:11Z\",\"observedGeneration\":3}}"
            ))
            .collect();
        let object = format!(
            "{{\"apiVersion\":\"helm.fluxcd.io/v1\",\"kind\":\"HelmRelease\",\"metadata\":{{\"creationTimestamp\":\"2026-11-29T21:08:10Z\",\
             \"finalizers\":[\"helm.fluxcd.io/uninstall\"],\"generation\":3,\"name\":\"web\",\"namespace\":\"apps\",\"resourceVersion\":\"81231\",\
             \"uid\":\"1f0c5a52-7d43-4a3f-9f5e-0d2c8f1f6a11\"}},\"spec\":{{\"chart\":{{\"git\":\"https://git.example.com/team/charts.git\",\
             \"ref\":\"main\",\"path\":\"charts/web\"}},\"values\":{{\"greeting\":\"good morning\"}}}},\
             \"status\":{{\"conditions\":[{}],\"digest\":\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"}}}}",
            conditions.join(",")
        );
        let packed = packer.pack(object.as_bytes()).unwrap();
        assert!(
            packed.bytes.len() * 5 < object.len(),
            "{} of {}",
            packed.bytes.len(),
            object.len()
        );
        assert_eq!(packer.unpack(&packed).unwrap(), object.as_bytes());
        packer.rest();
        let again = packer.pack(object.as_bytes()).unwrap();
        assert_eq!(again.bytes, packed.bytes);
    }

    #[test]
    fn what_was_not_packed_here_is_refused() {
        let packer = Packer::default();
        let good = packer.pack(b"{}").unwrap();
        for bytes in [
            &b""[..],
            b"x",
            b"\x78\x9c\x03\x00\x00\x00\x00\x01",
            &good.bytes[..good.bytes.len() - 1],
        ] {
            let bad = Packed {
                bytes: bytes.into(),
                length: 2,
            };
            assert_eq!(packer.unpack(&bad), None, "{bytes:?}");
        }
        let longer = Packed {
            bytes: good.bytes.clone(),
            length: 1,
        };
        assert_eq!(packer.unpack(&longer), None);
        assert_eq!(packer.unpack(&good).unwrap(), b"{}");
    }

    proptest::proptest! {
        #[test]
        fn every_text_comes_back(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..5000), times in 1_usize..20) {
            let packer = Packer::default();
            for text in [text.clone(), text.repeat(times), Vec::new()] {
                let packed = packer.pack(&text).unwrap();
                proptest::prop_assert_eq!(packer.unpack(&packed), Some(text));
            }
        }
    }
}
