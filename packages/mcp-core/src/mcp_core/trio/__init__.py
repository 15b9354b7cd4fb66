"""Code on trio that the client and the server share. It needs the extra `trio`; no other part of the core imports it."""
