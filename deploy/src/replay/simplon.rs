//! The REST interface of a detector control unit, SIMPLON 1.8: what can be asked and set, and what it does.
//!
//! [`parameters`] is the table of everything that has a name; [`detector`] holds the values, the state and the commands;
//! [`http`] answers requests; [`files`] hands out the files of the set.

pub mod detector;
pub mod files;
pub mod http;
pub mod parameters;
