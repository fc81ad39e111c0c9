//! The character set of the user's locale.

use std::ffi::OsString;

/// Whether the character set of the user's locale is UTF-8.
pub fn is_utf8() -> bool {
    is_utf8_by(|name| std::env::var_os(name))
}

/// Whether these variables select UTF-8. `LC_ALL` overrides `LC_CTYPE`, and that `LANG`; an
/// empty variable counts as unset (locale(7)).
fn is_utf8_by(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let name = set.map(|value| value.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| name.contains("utf-8") || name.contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_variable_that_is_set_decides() {
        let utf8 = |variables: &[(&str, &str)]| {
            is_utf8_by(|name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()))
        };
        assert!(utf8(&[("LANG", "en_US.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!utf8(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(!utf8(&[]));
    }
}
