"""The clients of the authorization server: registration, metadata documents, authentication."""
