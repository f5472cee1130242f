//! Waiting until releases are ready.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::{ControlPlane, is_ready};

/// How often a hundred releases are looked at; more of them are looked at less often, or the looks would be measured.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `count` of the HelmReleases at `path` of the API are ready.
pub(super) fn wait_for_all(
    plane: &ControlPlane,
    path: &str,
    count: usize,
    limit: Duration,
) -> Result<()> {
    let pause = PAUSE * u32::try_from(count.div_ceil(100))?;
    let end = Instant::now() + limit;
    loop {
        let list = plane.get(path)?;
        let items = list["items"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let late: Vec<&Value> = items.iter().filter(|it| !is_ready(it)).collect();
        let ready = items.len() - late.len();
        if ready == count {
            return Ok(());
        }
        let status = late.first().map_or(&Value::Null, |it| &it["status"]);
        ensure!(
            Instant::now() < end,
            "{ready} of {count} are ready; not: {status:#}"
        );
        std::thread::sleep(pause);
    }
}
