"""Raw ends of wires. They carry what they are given, right or wrong, and enter it in a transcript."""
