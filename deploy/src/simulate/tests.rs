//! Whole simulations, and frames against closed forms.

mod files;
mod waves;
