"""What is wrong with a file, said in a way that a person can act on."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding about one file. A ``notice`` is worth knowing; everything else is worth fixing."""

    path: str
    line: int  #: 1-based; 0 when it is about the whole file
    rule: str  #: short and stable, such as ``front-matter``
    message: str
    level: str = "warning"  #: ``error``, ``warning`` or ``notice``

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.level}: {self.message} [{self.rule}]"

    def as_json(self) -> dict[str, object]:
        """Give the shape of ``memu-fs check --json``."""
        return asdict(self)
