//! `/etc/os-release`

use crate::model::fields::Group;
use crate::model::machine::Os;
use crate::model::reading::{Missing, Reading};
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::label;

const PATH: &str = "/etc/os-release";

/// `NAME=value` lines, values in either kind of quotes or none.
#[must_use]
pub fn parse(text: &str) -> Os {
    let field = |name: &str| -> Reading<String> {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| label(value.trim().trim_matches(['"', '\''])))
            .filter(|value| !value.is_empty())
            .ok_or(Missing::NotPresent)
    };
    Os { pretty_name: field("PRETTY_NAME"), id: field("ID"), version_id: field("VERSION_ID") }
}

/// Reads the live file into `out`.
///
/// # Errors
/// The file's failure.
pub fn read(files: &dyn Files, out: &mut Os) -> Result<(), ReadError> {
    match files.text(PATH) {
        Ok(text) => {
            *out = parse(&text);
            Ok(())
        }
        Err(error) => {
            *out = Os::absent(error.reason());
            Err(error.at(PATH))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_come_off() {
        let os = parse("PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nID=ubuntu\nVERSION_ID='24.04'\n");
        assert_eq!(os.pretty_name.as_deref(), Ok("Ubuntu 24.04.3 LTS"));
        assert_eq!(os.id.as_deref(), Ok("ubuntu"));
        assert_eq!(os.version_id.as_deref(), Ok("24.04"));
        assert_eq!(parse("").id, Err(Missing::NotPresent));
    }
}
