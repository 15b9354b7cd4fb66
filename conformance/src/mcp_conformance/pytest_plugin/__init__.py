"""The pytest plugin: a test for each check in each revision over each transport."""
