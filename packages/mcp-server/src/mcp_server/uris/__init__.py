"""URI templates of RFC 6570, and bounds on URIs."""
