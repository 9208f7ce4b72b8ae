"""What programs call: each function checks what it was given and asks the engine."""
