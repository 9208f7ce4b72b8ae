"""The controller: decides which replicas there are, and tells routers about them."""
