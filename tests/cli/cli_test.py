"""The command line from outside: verbs, exit codes, messages, and that nothing half-written remains.

usage: cli_test.py RESHARD_PLAN SOURCE_ROOT
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

PROGRAM = sys.argv[1]
ROOT = pathlib.Path(sys.argv[2])
LIST = ROOT / "examples" / "strategies.json"
COST_KEYS = {
    "total_bytes", "inter_node_bytes", "inter_node_bytes_min", "intra_node_bytes", "local_bytes",
    "scalar_bytes", "makespan_us", "nic_bound_us", "makespan_bound_us", "peak_bytes_max",
    "staging_bytes_max", "windows", "messages", "planning_us",
}

passed = 0
failed = 0


def expect(condition, what, detail=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}\n{detail}")


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def expect_run(code, contains, *arguments):
    """Runs and checks the exit code, and that the output has every string of `contains`."""
    result = run(*arguments)
    text = result.stdout + result.stderr
    found = result.returncode == code and all(word in text for word in contains)
    expect(found, f"exit {code} with {contains}: {' '.join(map(str, arguments))}",
           f"exit {result.returncode}\n{text}")
    return result


def switch(model="tiny-llama", strategies=LIST, source="dp8", target="tp2-dp4"):
    return ["--model", model, "--strategies", strategies, "--from", source, "--to", target]


def test_main_path(work):
    plan = work / "p.json"
    expect_run(0, [], "plan", *switch(), "-o", plan)
    expect_run(0, ["proved"], "verify", plan)
    expect_run(0, ["0 differ"], "run", plan, "--executor", "host", "--check")
    expect_run(0, ["algorithm balanced"], "show", plan)
    expect_run(0, ["receive from"], "show", plan, "--ops", "--rank", "3")
    again = run("plan", *switch())
    expect(again.stdout == plan.read_text(), "the same inputs give the same bytes")
    cost = json.loads(run("cost", *switch(), "--json").stdout)
    expect(COST_KEYS <= cost.keys(), "cost has its keys", str(COST_KEYS - cost.keys()))
    from_plan = json.loads(run("cost", plan, "--json").stdout)
    cost.pop("planning_us")
    from_plan.pop("planning_us")
    expect(cost == from_plan, "cost of the plan is the cost of its inputs", f"{cost}\n{from_plan}")
    expect_run(0, ["Examples"], "--help")


def test_forms(work):
    plan, binary, back = work / "p.json", work / "p.fb", work / "q.json"
    expect_run(0, [], "convert", plan, binary)
    expect_run(0, [], "convert", binary, back)
    expect(plan.read_bytes() == back.read_bytes(), "JSON -> FlatBuffers -> JSON is lossless")
    expect_run(0, ["proved"], "verify", binary)
    expect_run(0, [], "plan", *switch(), "--rank", "3", "-o", work / "r3.json")
    expect_run(0, ["as far as it can be seen"], "verify", work / "r3.json")
    expect_run(2, [".json or .fb"], "convert", plan, work / "p.txt")


def test_layout_as_input(work):
    layout = work / "layout.json"
    expect_run(0, [], "layout", "--model", "tiny-llama", "--strategies", LIST, "--at", "dp8", "--json", "-o", layout)
    schema = json.loads((ROOT / "schemas" / "layout.schema.json").read_text())
    faults = list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(layout.read_text())))
    expect(not faults, "layout --json matches its schema", str(faults[:3]))
    plan = work / "from_layout.json"
    expect_run(0, [], "plan", "--model", "tiny-llama", "--strategies", LIST, "--source-layout", layout, "--to",
               "tp2-dp4", "-o", plan)
    expect_run(0, ["proved"], "verify", plan)
    expect_run(0, ["0 differ"], "run", plan, "--check")
    by_rule = json.loads((work / "p.json").read_text())
    by_layout = json.loads(plan.read_text())
    expect(by_rule["digests"] == by_layout["digests"], "a layout file has the digest of the rule it came from")


def test_unreadable(work):
    broken = work / "broken.json"
    broken.write_text('[{"name": "a",]')
    expect_run(2, ["no-such-file"], "plan", *switch(model="no-such-file"))
    expect_run(2, ["no-such-list"], "plan", *switch(strategies="no-such-list"))
    expect_run(2, ["broken.json", "line 1, column 15"], "plan", *switch(strategies=broken))
    expect_run(2, ["--frobnicate"], "plan", *switch(), "--frobnicate")
    expect_run(2, ["--algorithm", "balanced"], "plan", *switch(), "--algorithm", "fastest")
    expect_run(2, ["--from"], "plan", "--model", "tiny-llama", "--strategies", LIST, "--to", "dp8")
    expect_run(2, ["nic=fast"], "plan", *switch(), "--topology", "nodes=2,gpus=4,nic=fast")
    truncated = work / "truncated.json"
    truncated.write_text((work / "p.json").read_text()[:-200])
    for verb in ("verify", "run", "show", "cost"):
        expect_run(2, ["truncated.json"], verb, truncated)
    short = work / "short.fb"
    short.write_bytes((work / "p.fb").read_bytes()[:-64])
    expect_run(2, ["short.fb"], "verify", short)


def strategies_with(work, **changes):
    entry = {"name": "a", "world_size": 8, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 1}
    entry.update(changes)
    path = work / "list.json"
    path.write_text(json.dumps([entry, {"name": "b", "world_size": 8, "tensor_model_parallel_size": 1,
                                        "pipeline_model_parallel_size": 1}]))
    return path


def test_read_and_wrong(work):
    def plan_with(contains, **changes):
        expect_run(1, contains, "plan", *switch(strategies=strategies_with(work, **changes), source="a", target="b"))

    plan_with(["unknown key", "\"world_size\"", "/0/world_sizes"], world_sizes=2)
    plan_with(["expected an integer", '"8"', "/0/world_size"], world_size="8")
    plan_with(["must divide", "8"], tensor_model_parallel_size=3)
    plan_with(["3"], pipeline_model_parallel_size=3, world_size=6, tensor_model_parallel_size=1)
    expect_run(1, ["device", "topology has 4"], "plan", *switch(), "--topology", "nodes=1,gpus=4")
    expect_run(1, ["dp6", "dp8"], "plan", *switch(source="dp16"))
    model = work / "model.json"
    model.write_text('{"model_type": "mamba2", "hidden_size": 8}')
    expect_run(1, ["mamba2", "llama", "qwen3_moe"], "plan", *switch(model=model))
    expect_run(1, ["no living holder"], "plan", *switch(source="dp8", target="dp6"), "--dead-ranks", "7")
    expect_run(1, ["least limit"], "plan", *switch(), "--memory-limit", "1kB")


def test_edited_and_stale(work):
    text = (work / "p.json").read_text()
    edited = work / "edited.json"
    edited.write_text(text.replace('"offset_bytes": 0', '"offset_bytes": 4', 1))
    expect(edited.read_text() != text, "the plan has an offset to edit")
    for verb in ("verify", "run", "show", "cost"):
        expect_run(1, ["edited.json"], verb, edited)
    expect_run(1, ["V101"], "verify", work / "p.json", *switch(target="dp6"))
    expect_run(1, ["V101"], "verify", work / "p.json", *switch(model="tiny-qwen"))
    expect_run(0, ["proved"], "verify", work / "p.json", *switch())


def test_nothing_half_written(work):
    out = work / "out"
    out.mkdir()
    for arguments in (switch(source="dp16"), switch(model="no-such-file"), switch() + ["--memory-limit", "1kB"]):
        run("plan", *arguments, "-o", out / "p.json")
    expect(not list(out.iterdir()), "a failed plan leaves no file", str(list(out.iterdir())))
    expect_run(3, ["no-such-folder"], "plan", *switch(), "-o", work / "no-such-folder" / "p.json")


def test_check(work):
    expect_run(0, [], "check", LIST, "--model", "tiny-llama")
    faulty = strategies_with(work, tensor_model_parallel_size=3)
    expect_run(1, ["S201", "list.json:1:"], "check", faulty, "--model", "tiny-llama")
    found = json.loads(run("check", faulty, "--model", "tiny-llama", "--format", "json").stdout)
    expect(any(d["rule"] == "S201" for d in found["diagnostics"]), "check prints JSON")


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for test in (test_main_path, test_forms, test_layout_as_input, test_unreadable, test_read_and_wrong,
                     test_edited_and_stale, test_nothing_half_written, test_check):
            test(work)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


os.environ.pop("COLUMNS", None)
sys.exit(main())
