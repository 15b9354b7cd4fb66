"""The OAuth endpoints of the authorization server."""
