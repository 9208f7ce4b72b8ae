"""What makes sense under the name `ray` only: version, constants, pieces of Ray's inside."""
