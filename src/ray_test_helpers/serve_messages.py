"""`ray.serve.generated.serve_pb2`: the messages that tests of gRPC send.

They are declared here, and not in a .proto file, for want of a compiler of those.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

_TYPES = {
    "text": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "whole": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "number": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
}

# The fields of each message, by their numbers from 1 on.
_MESSAGES = {
    "ListApplicationsRequest": "",
    "ListApplicationsResponse": "application_names:texts",
    "HealthzRequest": "",
    "HealthzResponse": "message:text",
    "UserDefinedMessage": "name:text foo:text num:whole",
    "UserDefinedResponse": "greeting:text num_x2:whole",
    "UserDefinedMessage2": "",
    "UserDefinedResponse2": "greeting:text",
    "FruitAmounts": "orange:whole apple:whole banana:whole",
    "FruitCosts": "costs:number",
}


def _declared() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(
        name="ray_test_helpers/serve.proto", package="ray.serve", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            key, _, kind = field.partition(":")
            label = 3 if kind.endswith("s") else 1  # repeated, or not
            message.field.add(name=key, number=number, type=_TYPES[kind.rstrip("s")], label=label)
    packed: bytes = file.SerializeToString()
    return packed


DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_declared())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
