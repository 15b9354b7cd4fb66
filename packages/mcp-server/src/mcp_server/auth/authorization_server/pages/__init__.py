"""The pages of the authorization server: log in, consent, log out."""
