//! Budgets: see [`counted`]. (A module, so that `tests/run` can run them beside the others.)

mod counted;
