//! Indexes on disk: each beside what is known of it, `<key>.yaml` and `<key>.json`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Removes what a crash has left, and the indexes that were not downloaded for the longest time until all together
/// have at most `budget` bytes.
pub(super) fn sweep(directory: &Path, budget: u64) -> io::Result<()> {
    let mut indexes = Vec::new();
    for found in fs::read_dir(directory)? {
        let path = found?.path();
        let is = |extension: &str| path.extension().is_some_and(|it| it == extension);
        let has = |extension: &str| path.with_extension(extension).is_file();
        if is("yaml") && has("json") {
            let metadata = fs::metadata(&path)?;
            let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            indexes.push((time, metadata.len(), path));
        } else if path.is_file() && !(is("json") && has("yaml")) {
            fs::remove_file(&path)?;
        }
    }
    indexes.sort_by(|left, right| right.cmp(left));
    let mut total = 0_u64;
    for (_, bytes, path) in indexes {
        total = total.saturating_add(bytes);
        if total > budget {
            fs::remove_file(&path)?;
            fs::remove_file(path.with_extension("json"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_indexes_go_and_so_do_leftovers() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, age: u64| {
            let path = scratch.path().join(name);
            fs::write(&path, [0; 10]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            fs::File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        };
        for (name, age) in [("old", 300), ("new", 100), ("middle", 200)] {
            write(&format!("{name}.yaml"), age);
            write(&format!("{name}.json"), age);
        }
        for name in ["half.yaml", "lone.json", ".tmpAbc"] {
            write(name, 1);
        }
        sweep(scratch.path(), 25).unwrap();
        assert_eq!(
            names(scratch.path()),
            ["middle.json", "middle.yaml", "new.json", "new.yaml"]
        );
    }
}
