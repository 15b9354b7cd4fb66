"""The checks of servers, one module for each subject."""
