"""The vocabulary between the driver's hub and its workers: the first item of each message.

`kind, data` is an object's value as in `objects.Entry`. Ids are ints. Messages on one connection
are handled in order, which is what reference counting rests on: a worker's HOLD always arrives
before whatever lets the hub forget the object.
"""

from __future__ import annotations

# hub -> worker
TASK = 0  # id, function, kind, data, dependencies, num_returns, extra
FUNCTION = 1  # key, kind, data, name
CREATE = 2  # id, class, kind, data, dependencies, options
CALL = 3  # id, method, kind, data, dependencies, num_returns, extra
VALUE = 4  # id, kind, data
CANCEL = 5  # id
STEAL = 6  #
FORGET = 7  # key of a function that nobody can send any more
RECYCLE = 8  # segment name
CREDIT = 9  # id of a streaming task, items consumed (-1: wants no more)
PEER = 10  # actor, name of its socket ("": not now), whether it keeps no order, process number
LISTEN = 11  #
EXIT = 12  #

# worker -> hub
RESULT = 0  # id, kind, data, contained, µs
RESULTS = 1  # id, [(kind, data, contained)], µs
RETRY = 2  # id, kind, data (of the error that may be retried), µs
SUBMIT = 3  # id, function, kind, data, [(slot, id)], nested, options, parent
CREATE_ACTOR = 4  # id, class, kind, data, [(slot, id)], nested, options, meta
CALL_ACTOR = 5  # id, actor, method, kind, data, [(slot, id)], nested, options, parent
SUBSCRIBE = 6  # ids
BLOCKED = 7  # number of the wait, ids that are waited for, how many of them
UNBLOCKED = 8  # number of the wait
HOLD = 9  # ids
RELEASE = 10  # ids
PUT = 11  # id, kind, data, contained
REQUEST = 13  # id of the answer, method, packed arguments
UNEXPORT = 12  # key of a function that this worker cannot send any more
EXPORT = 14  # key, kind, data, name, nested
OPTIONS = 15  # key (-1: forget all), packed
GAVE_BACK = 16  # ids
ITEM = 17  # id of the task, index, id, kind, data, contained
LOG = 18  # stream (1, 2), label, text
PROMISE = 19  # ids that this worker will PUT
CONNECT = 20  # actor
LISTENING = 21  # name of the socket ("": it could not be made)
LOST_CALL = 22  # process number of the actor, then as CALL_ACTOR: it was sent directly
EXITING = 23  # the actor ends itself: whether that is wanted (exit_actor) or a crash, and why
PUT_FOR = 24  # process number of the owner, id, kind, data, contained
RETURN = 25  # id: the worker holds what it was lent

# worker -> actor, on a connection of their own: HELLO, then CALL and CANCEL as from the hub
HELLO = 13  # process number of the caller
