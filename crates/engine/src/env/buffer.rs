//! A byte buffer whose address and length suit direct I/O.
