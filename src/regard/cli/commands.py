"""A group of commands: what typer would handle in its own way is handed on to `main`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from regard.cli.interruption import Interruption, ReaderGone
from regard.errors import InputError, nearest


class Commands(TyperGroup):
    """The commands of a group, or all of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command called for.

        Raises:
            InputError: where there is none of that name, with the nearest.
        """
        if self.get_command(ctx, args[0]) is None:
            raise InputError(f"there is no command {args[0]!r}; {nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            Interruption: for Ctrl-C.
            ReaderGone: where the output is no longer read.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interruption("interrupted") from None
        except BrokenPipeError:
            raise ReaderGone from None
