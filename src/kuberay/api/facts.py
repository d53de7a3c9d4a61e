"""What the API says about a field beyond its Python type, attached to the field with `Annotated`.

The Python types are deliberately lenient: an object that an API server stored must always decode, also when its CRD is
newer or older than this library. What a field must look like stands in its `Facts`; the CRD and the offline schema
check are made from them, so each constraint is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from kuberay.api.cel import Cel


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Constraints of one field. Several may stand on one field; what a later one sets wins."""

    required: bool = False
    """Listed as required by the object that holds the field."""
    default: Any = None
    """What an API server writes when the field is absent."""
    format: str | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    pattern: str | None = None
    nullable: bool = False
    list_type: str | None = None
    list_keys: tuple[str, ...] = ()
    """Members that identify an element of a list; two elements with equal keys are refused."""
    rules: tuple[Cel, ...] = ()
    embeds: str | None = None
    """The Kubernetes type whose schema the field (or each element of it) has; its value stays verbatim."""


Int32 = Annotated[int | None, Facts(format="int32")]
Int64 = Annotated[int | None, Facts(format="int64")]
Time = Annotated[str | None, Facts(format="date-time")]
"""RFC 3339, as text: nothing here reads a clock or a calendar."""
Quantity = Annotated[int | str | None, Facts(format="quantity")]
"""As it was written; `kuberay.kube.quantity` computes with it."""
Json = dict[str, Any]
"""A Kubernetes object that passes through untouched."""
