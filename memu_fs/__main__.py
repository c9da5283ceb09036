"""``python -m memu_fs``."""

from memu_fs.cli import main

if __name__ == "__main__":
    main()
