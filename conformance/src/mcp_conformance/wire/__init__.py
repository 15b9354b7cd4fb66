"""HTTP and pipes without a protocol engine: they send valid and invalid data alike, and enter it in a transcript."""
