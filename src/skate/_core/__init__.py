"""What the façade and the engines share: references, identifiers, options, errors, bytes."""
