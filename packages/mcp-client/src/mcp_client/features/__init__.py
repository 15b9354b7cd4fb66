"""What a client asks of a server: requests, lists, tasks, subscriptions."""
