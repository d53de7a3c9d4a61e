"""Tables: how `kubectl get` asks for objects (`meta.k8s.io/v1 Table`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from kuberay.engine.apiserver.registry import Kind
    from kuberay.engine.apiserver.storage import Entry, Object


def table(kind: Kind, entries: list[Entry], now: datetime, *, include: str = "", headed: bool = True) -> Object:
    """Rows for objects. `include` is what a row carries beside its cells: nothing, metadata or the whole object.

    A watch sends the column definitions only with its first row (`headed`).
    """
    definitions: list[Object] | None = None
    if headed:
        definitions = [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in kind.columns.definitions
        ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": [_row(kind, entry, now, include) for entry in entries],
    }


def _row(kind: Kind, entry: Entry, now: datetime, include: str) -> Object:
    row: dict[str, Any] = {"cells": kind.columns.cells(entry.obj, now)}
    match include:
        case "None":
            pass
        case "Object":
            row["object"] = kind.view(entry.obj)
        case _:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": entry.obj["metadata"],
            }
    return row
