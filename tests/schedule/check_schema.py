"""Validates plans as written against schemas/schedule.schema.json, and broken ones against it.

usage: check_schema.py SCHEMA WRITE_SAMPLE_PLANS; exits 77 (skip) without python3-jsonschema.
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)


def first_with(records, key):
    return next(record for record in records if key in record)


# Each breaks one rule that the schema states.
def other_format(plan):
    plan["format"] = "plan"


def other_version(plan):
    plan["version"] = 7


def unknown_key(plan):
    plan["programs"][0]["storages"][0]["colour"] = "red"


def missing_key(plan):
    del plan["programs"][0]["storages"][0]["size_bytes"]


def short_digest(plan):
    plan["digest"] = "abc"


def negative_offset(plan):
    window = first_with(plan["programs"][0]["windows"], "sends")
    window["sends"][0]["slices"][0]["offset_bytes"] = -1


def unknown_role(plan):
    plan["programs"][0]["storages"][0]["role"] = "sink"


def unknown_dtype(plan):
    plan["programs"][0]["storages"][0]["dtype"] = "bfloat16"


def odd_pattern(plan):
    first_with(plan["programs"][0]["windows"], "before")["before"]["fills"][0]["pattern_bytes"] = 3


def two_piece_lists(plan):
    first_with(plan["programs"][0]["storages"], "pieces")["same_pieces_as"] = 0


def long_interval(plan):
    storage = first_with(plan["programs"][0]["storages"], "pieces")
    storage["pieces"][0]["box"][0].append(9)


def request_as_text(plan):
    plan["request"] = "{}"


FAULTS = [
    other_format,
    other_version,
    unknown_key,
    missing_key,
    short_digest,
    negative_offset,
    unknown_role,
    unknown_dtype,
    odd_pattern,
    two_piece_lists,
    long_interval,
    request_as_text,
]


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[2], folder], check=True)
        paths = sorted(pathlib.Path(folder).glob("*.json"))
        assert len(paths) > 3, "no plans were written"
        for path in paths:
            for error in validator.iter_errors(json.loads(path.read_text())):
                print(f"{path.name}: /{'/'.join(map(str, error.path))}: {error.message}")
                failures += 1
        good = json.loads((pathlib.Path(folder) / "every_field.json").read_text())
    for fault in FAULTS:
        plan = copy.deepcopy(good)
        fault(plan)
        if validator.is_valid(plan):
            print(f"{fault.__name__}: the schema accepts it")
            failures += 1
    print(f"{len(paths)} plans, {len(FAULTS)} broken ones, {failures} failures")
    return 1 if failures else 0


sys.exit(main())
