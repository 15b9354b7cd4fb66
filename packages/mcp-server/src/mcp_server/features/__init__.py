"""The features of a server: tools, resources, prompts, completion, lists, mounted servers."""
