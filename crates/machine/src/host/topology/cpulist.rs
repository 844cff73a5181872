//! The kernel's CPU lists: `0-3,7`.

/// The CPUs of a list in ascending order; `None` if the text is no list.
pub fn parse(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((a, b)) => (a.trim().parse::<usize>().ok()?, b.trim().parse::<usize>().ok()?),
            None => {
                let one = part.trim().parse().ok()?;
                (one, one)
            }
        };
        if last < first || last - first > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Writes a list the way the kernel does.
pub fn format(cpus: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < cpus.len() {
        let mut end = at;
        while end + 1 < cpus.len() && cpus[end + 1] == cpus[end] + 1 {
            end += 1;
        }
        parts.push(if end > at { format!("{}-{}", cpus[at], cpus[end]) } else { cpus[at].to_string() });
        at = end + 1;
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(parse("0-3,7\n"), Some(vec![0, 1, 2, 3, 7]));
        assert_eq!(parse(""), Some(vec![]));
        assert_eq!(parse("3-1"), None);
        assert_eq!(parse("x"), None);
    }

    #[test]
    fn round_trip() {
        for list in ["0", "0-3", "0-3,7", "1,3,5-6"] {
            assert_eq!(format(&parse(list).expect(list)), list);
        }
    }
}
