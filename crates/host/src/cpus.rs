//! Lists of CPUs as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The CPUs of a list; `None` when it is not one.
pub fn read(list: &str) -> Option<BTreeSet<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < MOST).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// The list of these CPUs.
pub fn list(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// The CPUs that are online below the root in which this file of /proc is.
pub fn online(file: &Path) -> BTreeSet<u32> {
    let root = file.ancestors().find(|above| above.ends_with("proc")).and_then(Path::parent);
    let list = root.and_then(|root| fs::read_to_string(root.join("sys/devices/system/cpu/online")).ok());
    list.and_then(|list| read(list.trim())).unwrap_or_default()
}

/// Above the most that Linux can have.
const MOST: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_writes_them() {
        for (given, written) in [("0", "0"), ("1,0", "0-1"), ("0-2,8,9-10", "0-2,8-10"), ("3,1", "1,3")] {
            assert_eq!(read(given).map(|cpus| list(&cpus)).as_deref(), Some(written));
        }
        for wrong in ["", "all", "2-1", "0-", "-1", "0-99999999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
