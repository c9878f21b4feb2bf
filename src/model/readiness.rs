//! Whether a box is fit for a run that is about to start.

states! {
    /// What a check comes to.
    Level {
        /// As it should be.
        Pass = "pass",
        /// The run will be slower or nearer to its end than it need be.
        Warn = "warn",
        /// The run should not start.
        Fail = "fail",
        /// One look cannot tell.
        Unknown = "unknown",
    }
}

states! {
    /// What all checks come to.
    Readiness {
        /// Nothing is in the way.
        Ready = "ready",
        /// It can start, and will be slower or nearer to its end than it need be.
        Slow = "slow",
        /// It should not start.
        Blocked = "blocked",
    }
}
