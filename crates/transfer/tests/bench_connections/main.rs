//! Client and server of `numaio bench net` in one process over the loopback.

mod authentication;
mod hostile_clients;
mod measurements;
mod support;
