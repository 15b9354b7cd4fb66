"""The features of a client: requests, lists, tasks and subscriptions."""
