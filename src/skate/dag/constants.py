"""Names under which the nodes of methods keep what they depend on besides their arguments."""

PARENT_CLASS_NODE_KEY = "parent_class_node"
PREV_CLASS_METHOD_CALL_KEY = "prev_class_method_call"
