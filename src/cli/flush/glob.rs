//! Patterns of file names: * and ? within a name, as a shell has them. Most shells expand them before.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// More files than this are a pattern that went wrong.
pub(super) const MOST: usize = 100_000;

/// Whether a name matches a pattern. * stands for any characters, ? for one; names that begin with a dot want
/// one.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go back to when what follows the last star does not match.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Every path that a pattern stands for, in the order of names. A path without * and ? is itself.
pub(super) fn expand(pattern: &Path) -> Vec<PathBuf> {
    let text = pattern.to_string_lossy();
    if !text.contains(['*', '?']) {
        return vec![pattern.to_owned()];
    }
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str().to_string_lossy();
        let wild = matches!(component, Component::Normal(_)) && name.contains(['*', '?']);
        found = if wild {
            found.iter().flat_map(|dir| below(dir, &name)).take(MOST).collect()
        } else {
            found
                .iter()
                .map(|dir| dir.join(component.as_os_str()))
                .filter(|path| path.exists())
                .collect()
        };
    }
    found.sort();
    found
}

fn below(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let place = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    entries
        .take(MOST)
        .filter_map(Result::ok)
        .filter(|entry| matches(pattern, &entry.file_name().to_string_lossy()))
        .map(|entry| dir.join(entry.file_name()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, is) in [
            ("*.safetensors", "model-00001-of-00002.safetensors", true),
            ("*.safetensors", "model.bin", false),
            ("model-?.gguf", "model-1.gguf", true),
            ("model-?.gguf", "model-12.gguf", false),
            ("a*b*c", "aXbYbZc", true),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("*a", &"a".repeat(200), true),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }
}
