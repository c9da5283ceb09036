"""The command line; imported by nothing."""

import sys


def main() -> None:
    """Run the command of this process and leave with its exit code.

    A retrieve goes to the daemon, before anything heavy is imported, and so does a pass; what the daemon cannot
    do is done here.
    """
    argv = sys.argv[1:]
    if argv[:1] in (["retrieve"], ["search"], ["index"]):
        from memu_fs import thin

        if argv[0] != "index" and thin.is_hook(argv):
            try:
                thin.hook(argv)
            finally:
                thin.leave(0)  # a hook never fails, whatever happened
        try:
            code = thin.ask(argv)
        except KeyboardInterrupt:
            print("memu-fs: stopped.", file=sys.stderr)
            code = 130
        if code is not None:
            thin.leave(code)
    from memu_fs.cli.app import run

    sys.exit(run(argv))
