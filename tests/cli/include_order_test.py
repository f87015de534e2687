"""Includes follow the data: a stage may include itself and the stages before it, nothing later.

usage: include_order_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

ORDER = ["base", "model", "topology", "strategy", "layout", "demand", "optimize", "schedule", "verify", "cost"]
# The IR half of schedule/ is all that executors and the checker's run may see besides base/.
EXECUTOR_MAY_SEE = {"base", "schedule", "execute"}
VERIFY_MAY_SEE = {"base", "model", "topology", "layout", "schedule", "verify"}
IR_FILES_MAY_NOT_SEE = {"demand", "optimize", "layout", "strategy", "topology", "model"}
LOWERING = {"lower", "packing", "program_writer", "shard_index"}


def main() -> int:
    root = pathlib.Path(sys.argv[1]) / "libplan"
    faults = []
    seen = 0
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cc"} or path.parent == root:
            continue
        stage = path.relative_to(root).parts[0]
        for line in path.read_text().splitlines():
            match = re.match(r'#include "libplan/([a-z_]+)/([a-z_]+)', line)
            if not match:
                continue
            seen += 1
            other, name = match.groups()
            allowed = set(ORDER[: ORDER.index(stage) + 1]) if stage in ORDER else EXECUTOR_MAY_SEE
            if stage == "verify":
                allowed = VERIFY_MAY_SEE
            if stage == "schedule" and path.stem not in LOWERING:
                allowed = allowed - IR_FILES_MAY_NOT_SEE
            if other not in allowed or (stage in {"verify", "execute"} and name in LOWERING):
                faults.append(f"{path.relative_to(root.parent)}: {line}")
    print("\n".join(faults) or f"{seen} includes in order")
    return 1 if faults or seen == 0 else 0


sys.exit(main())
