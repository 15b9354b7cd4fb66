"""Where the checks of each side are kept."""
