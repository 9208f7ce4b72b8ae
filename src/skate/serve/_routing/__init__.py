"""From a handle to a replica and back: one router per process and deployment."""
