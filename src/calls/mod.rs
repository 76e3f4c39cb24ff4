//! What can be asked, whoever asks: one file per call, with its request, its rules and its answer.

pub mod admin;
pub mod extend;
pub mod fields;
pub mod lock;
pub mod problem;
pub mod rates;
pub mod read;
pub mod release;
pub mod room_locks;
pub mod unlock;
pub mod view;
