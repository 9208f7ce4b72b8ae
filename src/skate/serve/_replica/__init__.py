"""A replica: the actor around one instance of the user's class or function."""
