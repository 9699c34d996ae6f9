//! Text in the sense of Python: its white space is that of `str.split`.

/// Whether `str.isspace` is true of a character.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

/// The words of `text.split()`.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Whether a word is among those of a text, in any case. `word` has no "k": Python's lower case
/// makes one of the Kelvin sign.
pub fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|one| one.eq_ignore_ascii_case(word))
}

/// The target of a refresh, if it has one. Ported from `refresh_href` in `links.py`.
pub fn refresh_href(content: &str) -> Option<&str> {
    let rest = content.trim_start_matches(is_space);
    let time = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if time.len() == rest.len() || !time.starts_with(|c| is_space(c) || c == ';' || c == ',') {
        return None;
    }
    let rest = time.trim_start_matches(is_space);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(is_space);
    let mut href = without_url(rest).unwrap_or(rest);
    if let Some(quote) = href.chars().next().filter(|&c| c == '\'' || c == '"') {
        href = href[1..].split(quote).next().unwrap_or_default();
    }
    let href = href.trim_matches(is_space);
    (!href.is_empty()).then_some(href)
}

/// The rest after "url" and "=".
fn without_url(text: &str) -> Option<&str> {
    let word = text.get(..3).filter(|word| word.eq_ignore_ascii_case("url"))?;
    let rest = text[word.len()..].trim_start_matches(is_space).strip_prefix('=')?;
    Some(rest.trim_start_matches(is_space))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_has_a_target() {
        for (content, href) in [
            ("0;url=x", Some("x")),
            ("5 ; URL = 'x y'z", Some("x y")),
            (".5,x", Some("x")),
            ("0;", None),
            ("0", None),
            ("x;url=y", None),
            ("0; \"\" x", None),
        ] {
            assert_eq!(refresh_href(content), href, "{content}");
        }
    }

    #[test]
    fn words_are_those_of_python() {
        assert!(has_word("a\u{1c}NoFollow\u{3000}b", "nofollow"));
        assert!(!has_word("nofollowed", "nofollow"));
    }
}
