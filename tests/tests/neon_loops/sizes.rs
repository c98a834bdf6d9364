//! Elementwise operations at all sizes around the vectors', on extreme values.
