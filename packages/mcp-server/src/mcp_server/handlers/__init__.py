"""What the functions of a server's author receive, and how they are called."""
