"""Print every relative Markdown link under a folder that leads nowhere."""

import re
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.+)$", re.MULTILINE)


def anchor(heading: str) -> str:
    """Turn a heading into its anchor."""
    return re.sub(r"[^\w-]", "", heading.strip().lower().replace(" ", "-"))


def leads_nowhere(page: Path, target: str) -> bool:
    """Say whether the file or the heading that a link names is missing."""
    path, _, fragment = target.partition("#")
    goal = page.parent / path if path else page
    if not goal.exists():
        return True
    if not fragment or goal.suffix != ".md":
        return False
    return fragment not in {anchor(found) for found in HEADING.findall(goal.read_text("utf-8"))}


def main(root: Path) -> int:
    """Report broken links, return the exit status."""
    broken = 0
    for page in sorted(root.rglob("*.md")):
        for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
            for target in LINK.findall(line):
                if "://" not in target and leads_nowhere(page, target):
                    print(f"{page}:{number}: {target}")
                    broken += 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
