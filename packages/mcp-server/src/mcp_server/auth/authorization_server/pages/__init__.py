"""The pages of the authorization server: login, consent, logout."""
