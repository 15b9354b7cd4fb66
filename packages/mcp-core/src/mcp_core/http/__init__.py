"""HTTP, as decisions: which request is whose, what may be answered, what comes next. No sockets."""
