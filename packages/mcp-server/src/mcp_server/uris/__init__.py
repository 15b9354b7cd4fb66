"""URI templates of RFC 6570, and limits on the length of URIs."""
