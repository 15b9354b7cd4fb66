"""JSON Schemas from Python types and signatures, and values that are checked and converted with them."""
