//! The landing page: what this is, how the pool stands, where the rest is.

use super::looks::{Look, in_bar, look};
use super::status::{Figure, Status};
use super::terminal;
use crate::units::Bytes;
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.4rem;margin:0}p.sub{margin:.2rem 0 1.2rem;opacity:.75}\
.bar{display:flex;height:2rem;border-radius:4px;overflow:hidden;margin:.6rem 0}\
.bar i{display:block;height:100%}\
ul.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:0 0 1.2rem}\
.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}\
pre{background:#8882;padding:1rem;border-radius:4px;overflow-x:auto;font-size:13px;line-height:1.4}\
nav a{margin-right:1.2rem}";

/// Text as it may stand in HTML. Names of the machine come from its firmware.
fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
        out
    })
}

/// The page, with links to the other pages by name.
#[must_use]
pub fn page(status: &Status, links: &[(&str, &str)]) -> String {
    let mut bar = String::new();
    let mut key = String::new();
    if let Some(size) = status.pool.size.value().copied() {
        for segment in in_bar() {
            let part = status.pool.segments.get(segment.as_str()).and_then(Figure::value).copied();
            let Some(part) = part.filter(|part| *part > 0) else { continue };
            let share = Bytes(part).share_of(Bytes(size)).map_or(0.0, |r| r.0 * 100.0);
            let Look { page: colour, name, .. } = look(segment, true, true);
            let part = Bytes(part);
            let _ = write!(
                bar,
                "<i style=\"width:{share:.3}%;background:{colour}\" title=\"{name} {part}\"></i>"
            );
            let _ = write!(key, "<li><i style=\"background:{colour}\"></i>{name} {part}</li>");
        }
    }
    let version = escape(&status.exporter.version);
    let view = escape(&terminal::render(status, false));
    let links: String = links
        .iter()
        .map(|(name, path)| format!("<a href=\"{}\">{name}</a>", escape(path)))
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gb10-exporter</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n\
         <h1>gb10-exporter {version}</h1>\n\
         <p class=\"sub\">The memory pool and the health of this machine, for Prometheus.</p>\n\
         <nav>{links}</nav>\n\
         <div class=\"bar\">{bar}</div><ul class=\"key\">{key}</ul>\n<pre>{view}</pre>\n</body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_firmware_says_is_no_markup() {
        assert_eq!(escape("<b>\"A&B\"</b>"), "&lt;b&gt;&quot;A&amp;B&quot;&lt;/b&gt;");
    }
}
