"""JSON Schemas from Python types and signatures; values checked and converted by them."""
