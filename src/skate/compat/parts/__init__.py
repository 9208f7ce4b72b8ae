"""What makes sense under the name `ray` only: version, constants, helpers of Ray's own tests.

Also what `ray._private` and `ray._common` stand for, as far as programs use them.
"""
