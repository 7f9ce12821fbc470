"""Print every benchmark as one table: ``python -m benchmarks``."""

import importlib
import pkgutil

import benchmarks


def main() -> None:
    print(f"{'job':<38} {'plain way':<40} {'s':>8}   {'this library':<40} {'s':>8} {'ratio':>7}")
    for module in sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__) if found.name != "__main__"):
        rows = getattr(importlib.import_module(f"benchmarks.{module}"), "rows", None)
        for row in rows() if rows else ():
            ratio = f"x{row.plain_s / row.library_s:.2f}"
            print(
                f"{row.job:<38} {row.plain:<40} {row.plain_s:8.3f}   {row.library:<40} {row.library_s:8.3f} {ratio:>7}"
            )


if __name__ == "__main__":
    main()
