//! A flame graph as one SVG file: frames, style and the script that zooms and searches; nothing is loaded from anywhere.
//!
//! ```text
//! depth 2   ┌ b ──┐┌ c ┐
//! depth 1   ┌ a ──────────┐┌ d ──┐
//! depth 0   ┌ all ───────────────┐      inverted: the other way round
//! ```

use memwide_analysis::stacks::{Origin, Shown, Stacks};
use std::io::{self, Write};

const SCRIPT: &str = include_str!("view.js");

/// Height of a frame, in pixels.
const ROW: usize = 17;
/// Room for the title, in pixels.
const HEAD: usize = 56;
/// Width the picture is drawn for; it scales.
const WIDTH: usize = 1200;
/// Width of a character, in pixels.
const CHARACTER: f64 = 7.4;
/// Frames narrower than this share are not drawn: a tenth of a pixel.
const SHARE_MIN: f64 = 0.1 / WIDTH as f64;
/// Rows drawn at most.
const ROWS_MAX: usize = 512;

/// What is drawn.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) stacks: &'a Stacks,
    pub(crate) title: String,
    /// Estimator, unit, number of samples.
    pub(crate) about: String,
    /// Unit of the values.
    pub(crate) unit: &'a str,
    /// The root at the top.
    pub(crate) inverted: bool,
}

/// Text within XML: no markup, no characters that XML cannot have.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Warm colours for programs, cold ones for the kernel; the same name has the same colour everywhere.
fn colour(node: &Shown<'_>) -> String {
    let hash = node.name.bytes().fold(0xcbf2_9ce4_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let part = |shift: u32, range: u32| (hash >> shift) % range;
    match node.origin {
        Origin::User => format!(
            "rgb({},{},{})",
            205 + part(0, 50),
            80 + part(8, 120),
            part(16, 55)
        ),
        Origin::Kernel => format!(
            "rgb({},{},{})",
            60 + part(0, 60),
            130 + part(8, 60),
            200 + part(16, 50)
        ),
        Origin::Unknown => format!("rgb({0},{0},{0})", 190 + part(0, 40)),
        Origin::Label => format!("rgb({},{},{})", 200 + part(0, 20), 215 + part(8, 20), 170),
    }
}

/// Writes the picture.
pub(crate) fn svg(out: &mut impl Write, picture: &Picture<'_>) -> io::Result<()> {
    let nodes = picture.stacks.nodes();
    let whole = picture.stacks.total().max(1) as f64;
    let is_drawn =
        |node: &&Shown<'_>| node.total as f64 / whole >= SHARE_MIN && node.depth < ROWS_MAX;
    let rows = nodes.iter().filter(is_drawn).map(|node| node.depth + 1);
    let rows = rows.max().unwrap_or(1);
    let hidden = nodes.len() - nodes.iter().filter(is_drawn).count();
    let height = HEAD + rows * ROW + ROW;
    writeln!(
        out,
        r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}">
<style>
text {{ font: 12px monospace; fill: #111; }} #title {{ font-size: 16px; }} svg {{ background: #fdfdf8; }}
g.f {{ cursor: pointer; }} g.f rect {{ stroke: #fdfdf8; stroke-width: 0.5; }} g.f:hover rect {{ stroke: #111; }}
g.f.around rect {{ opacity: 0.5; }} g.f.hit rect {{ fill: #c0f; }} #search {{ cursor: pointer; text-decoration: underline; }}
</style>
<text id="title" x="10" y="20">{}</text>
<text x="10" y="40">{}</text>
<text id="search" x="90%" y="20">search</text>
<text id="status" x="80%" y="40"></text>"#,
        escaped(&picture.title),
        escaped(&if hidden == 0 {
            picture.about.clone()
        } else {
            format!("{}; {hidden} frames too small to draw", picture.about)
        }),
    )?;
    for node in nodes.iter().filter(is_drawn) {
        frame(out, picture, node, whole, rows)?;
    }
    writeln!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
}

fn frame(
    out: &mut impl Write,
    picture: &Picture<'_>,
    node: &Shown<'_>,
    whole: f64,
    rows: usize,
) -> io::Result<()> {
    let (from, share) = (node.start as f64 / whole, node.total as f64 / whole);
    let row = if picture.inverted {
        node.depth
    } else {
        rows - 1 - node.depth
    };
    let y = HEAD + row * ROW;
    let name = escaped(node.name);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the width, at least 0"
    )]
    let room = (share * WIDTH as f64 / CHARACTER) as usize;
    let label: String = if room < 4 {
        String::new()
    } else {
        escaped(&node.name.chars().take(room - 1).collect::<String>())
    };
    let of = picture.unit;
    writeln!(
        out,
        r#"<g class="f" data-a="{from:.8}" data-b="{:.8}" data-n="{name}"><title>{name} ({} {of}, {:.2} %)</title><rect x="{:.4}%" y="{y}" width="{:.4}%" height="{}" fill="{}"/><text x="{:.4}%" dx="3" y="{}">{label}</text></g>"#,
        from + share,
        node.total,
        share * 100.0,
        from * 100.0,
        share * 100.0,
        ROW - 1,
        colour(node),
        from * 100.0,
        y + 12,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_analysis::stacks::Frame;

    fn drawn(names: &[(&str, u64)], inverted: bool) -> String {
        let mut stacks = Stacks::default();
        for (names, value) in names {
            let frames: Vec<_> = names.split(' ').map(Frame::label).collect();
            stacks.add(&frames, *value);
        }
        let picture = Picture {
            stacks: &stacks,
            title: "a \"title\" & more".to_owned(),
            about: "by samples".to_owned(),
            unit: "samples",
            inverted,
        };
        let mut out = Vec::new();
        svg(&mut out, &picture).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Every opened element is closed, in order; attributes hold no markup.
    fn check_well_formed(text: &str) {
        let (markup, _) = text.split_once("<script>").unwrap();
        let mut open = Vec::new();
        for tag in markup.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap();
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "{text}");
            } else if !tag.ends_with(['/', '?']) {
                open.push(tag.split(' ').next().unwrap().to_owned());
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        }
        assert_eq!(open, ["svg"]);
        assert!(text.trim_end().ends_with("]]></script>\n</svg>"));
    }

    #[test]
    fn hostile_names_stay_text() {
        let text = drawn(&[("a\"<script>alert(1)</script>&\u{1b}[31m", 3)], false);
        check_well_formed(&text);
        assert!(!text.contains("<script>alert") && !text.contains('\u{1b}'));
        assert_eq!(
            text.matches("]]>").count(),
            1,
            "the script cannot end early"
        );
    }

    #[test]
    fn frames_are_placed_by_their_share_and_the_root_is_below_unless_inverted() {
        let rect = |text: &str, name: &str| {
            let frame = text
                .lines()
                .find(|line| line.contains(&format!("data-n=\"{name}\"")));
            frame.unwrap().to_owned()
        };
        let paths = [("a b", 1), ("a c", 2), ("d", 1)];
        let text = drawn(&paths, false);
        check_well_formed(&text);
        assert!(rect(&text, "c").contains("x=\"25.0000%\""), "{text}");
        assert!(rect(&text, "c").contains("width=\"50.0000%\""), "{text}");
        assert!(rect(&text, "a").contains("(3 samples, 75.00 %)"), "{text}");
        assert!(rect(&text, "all").contains(&format!("y=\"{}\"", HEAD + 2 * ROW)));
        assert!(rect(&drawn(&paths, true), "all").contains(&format!("y=\"{HEAD}\"")));
    }

    #[test]
    fn what_nobody_could_see_is_counted_not_drawn() {
        let text = drawn(&[("a", 1_000_000), ("tiny", 1)], false);
        assert!(!text.contains("data-n=\"tiny\""));
        assert!(text.contains("1 frames too small to draw"), "{text}");
    }
}
