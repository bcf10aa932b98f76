# SPDX-License-Identifier: Apache-2.0
"""Structured objects: several named members under one reference, in a store.

    transfer = MooncakeBundleTransfer(store, key_prefix="demo")
    ref = transfer.put_structured_object(
        StructuredObjectPayload(metadata={"step": 7}, buffers={"tokens": array, "ids": b"..."}))
    spec = transfer.read_spec(ref).select_members(["tokens"]).slice_member("tokens", start=2, end=5)
    tokens = transfer.materialize(spec).objects["tokens"]
    transfer.remove_structured_object(ref)

Members keep their kind: bytes, arrays of numpy, tensors of torch, rows of numbers or
of any values. Every key that an object consists of has the write options that were
given for the object, its session and group among them.
"""
from .refs import (
    export_dataproto_ref,
    export_ref,
    import_dataproto_ref,
    import_ref,
    is_dataproto_ref_handle,
    is_ref_handle,
)
from .transfer import MooncakeBundleTransfer
from .types import (
    BundleTransferPolicy,
    FieldPlace,
    FieldSchema,
    MooncakeDataProtoRef,
    RawDestination,
    RemoteBundleRef,
    StructuredMemberSlice,
    StructuredObjectCorrupt,
    StructuredObjectError,
    StructuredObjectMissing,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
    TensorObjectBuffer,
    raw_destination,
    tensor_object_buffer,
)
from .values import ValueNotStorable

__all__ = [
    "BundleTransferPolicy",
    "FieldPlace",
    "FieldSchema",
    "MooncakeBundleTransfer",
    "MooncakeDataProtoRef",
    "RawDestination",
    "RemoteBundleRef",
    "StructuredMemberSlice",
    "StructuredObjectCorrupt",
    "StructuredObjectError",
    "StructuredObjectMissing",
    "StructuredObjectPayload",
    "StructuredObjectReadSpec",
    "StructuredObjectResult",
    "TensorObjectBuffer",
    "ValueNotStorable",
    "export_dataproto_ref",
    "export_ref",
    "import_dataproto_ref",
    "import_ref",
    "is_dataproto_ref_handle",
    "is_ref_handle",
    "raw_destination",
    "tensor_object_buffer",
]
