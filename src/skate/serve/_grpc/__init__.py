"""gRPC: a process that answers the methods of the user's services by calls of handles."""
