//! Files that the command line names by an address on the web.

use anyhow::Result;
use reqwest::Url;

use super::charts::{LoginFlags, archive_url, block_on};
use crate::source::Access;

/// The content of a file of a web server, within the bounds in time and bytes of chart
/// repositories; `None` for what is no such address.
pub(crate) fn read(name: &str) -> Option<Result<Vec<u8>, String>> {
    let url = archive_url(name)?;
    Some(fetch(&url).map_err(|error| format!("{error:#}")))
}

fn fetch(url: &Url) -> Result<Vec<u8>> {
    let charts = LoginFlags::default().charts(&[])?;
    block_on(async { Ok(charts.download(url, &Access::anonymous()).await?) })
}
