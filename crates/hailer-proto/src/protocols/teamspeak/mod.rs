//! TeamSpeak: lines of commands over TCP.

mod command_lines;
pub mod teamspeak2;
pub mod teamspeak3;
