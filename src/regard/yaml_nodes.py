"""YAML by way of its nodes, which are counted before any value is made of them; `regard.reading` has what is read so."""

from __future__ import annotations

from typing import Any

import yaml


def value_of(text: str, *, deepest: int, most_nodes: int, most_values: int) -> Any:
    """The value in a YAML text; None for an empty one.

    Arguments:
        deepest: levels of nesting that it may have.
        most_nodes: values that it may write.
        most_values: values that it may have when each alias is replaced by what it names.

    Raises:
        ValueError: as `regard.reading.yaml_value`.
    """
    loader = None
    try:
        loader = _Loader(text, deepest, most_nodes)
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, most_values)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", in line {error.problem_mark.line + 1}"
        raise ValueError(", ".join(filter(None, (error.context, error.problem))) + line) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except (KeyError, AttributeError, IndexError, TypeError, OverflowError):
        # The library does not check what a tag such as !!int is put before.
        raise ValueError("a value is not of its kind") from None
    finally:
        if loader is not None:
            loader.dispose()


_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map", "merge")
}


_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
LONGEST_NUMBER = 2000
"""Characters of a number."""


class _Loader(yaml.SafeLoader):
    """The safe loader, with bounds: the nodes are counted while they are made."""

    def __init__(self, text: str, deepest: int, most: int) -> None:
        super().__init__(text)
        self._deepest, self._most = deepest, most
        self._depth = self._made = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        self._made += 1
        if self._depth > self._deepest:
            raise ValueError(f"it is nested too deeply, more than {self._deepest} levels")
        if self._made > self._most:
            raise ValueError(f"it holds more than {self._most:,} values")
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if (
            node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER
        ):  # 1:59:59 and so on takes the square of its length
            raise ValueError("a whole number has hundreds of digits")
        if node.tag not in _TAGS:
            raise ValueError(
                f"line {node.start_mark.line + 1} has a value of the kind {node.tag.rsplit(':', 1)[-1][:60]!r}"
            )
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            said = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if said in seen:
                raise ValueError(f"the key {key.value[:60]!r} is there twice, again in line {key.start_mark.line + 1}")
            if said is not None:
                seen.add(said)
        return node


def _count(root: Any, most: int) -> None:
    """Refuse a graph of nodes that would be too large a tree, or none because a node is within itself."""
    sizes: dict[int, int] = {}
    within: set[int] = set()
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        node, done = todo.pop()
        if id(node) in sizes:
            continue
        if not isinstance(node, yaml.CollectionNode):
            sizes[id(node)] = 1
            continue
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        if done:
            within.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
            if sizes[id(node)] > most:
                raise ValueError(f"with its aliases replaced it holds more than {most:,} values")
            continue
        within.add(id(node))
        todo.append((node, True))
        for part in parts:
            if id(part) in within:
                raise ValueError(f"an alias names what it stands in, from line {part.start_mark.line + 1}")
            todo.append((part, False))
