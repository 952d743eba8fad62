//! Tests that the commands in web pages and help texts are valid.

use crate::args::Arguments;
use clap::{CommandFactory, Parser};

/// Parses a command line. Text in quotes may contain spaces.
fn check(command: &str) {
    let mut words = Vec::new();
    for (number, piece) in command.split(['"', '\'']).enumerate() {
        if number % 2 == 0 {
            words.extend(piece.split_whitespace());
        } else {
            words.push(piece);
        }
    }
    if let Err(error) = Arguments::try_parse_from(words) {
        panic!("{command}: {error}");
    }
}

#[test]
fn commands_in_pages_are_valid() {
    let mut count = 0;
    for template in [
        include_str!("../../hailer-monitor/templates/overview.html"),
        include_str!("../../hailer-monitor/templates/alerts.html"),
    ] {
        // Remove the tags of the template: the command must be valid without the optional parts.
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, tag)) = rest.split_once("{%") {
            text.push_str(before);
            rest = tag.split_once("%}").unwrap().1;
        }
        text.push_str(rest);
        for element in ["<pre>", "<code>"] {
            for start in text.split(element).skip(1) {
                let content = start.split('<').next().unwrap();
                if content.starts_with("hailer ") {
                    check(&content.replace("{{ address }}", "http://127.0.0.1:80"));
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 3);
}

#[test]
fn commands_in_help_texts_are_valid() {
    fn walk(command: &clap::Command, count: &mut usize) {
        let texts = [command.get_after_help(), command.get_after_long_help()];
        for text in texts.into_iter().flatten() {
            for line in text.to_string().lines() {
                // A comment follows after two spaces.
                let line = line.trim_start().split("  ").next().unwrap();
                for part in line.split(" | ").flat_map(|part| part.split(" && ")) {
                    if part.starts_with("hailer ") {
                        check(part.split(" > ").next().unwrap());
                        *count += 1;
                    }
                }
            }
        }
        for sub in command.get_subcommands() {
            walk(sub, count);
        }
    }
    let mut count = 0;
    walk(&Arguments::command(), &mut count);
    assert!(count >= 20, "{count}");
}
